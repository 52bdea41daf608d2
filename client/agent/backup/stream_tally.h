// Counts the streams of a backup, and which way they went.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "client/cpp/resuming_upload.h"

namespace kerf::agent {

struct StreamCounts {
  // Streams that were lost and went on.
  std::uint64_t resumed = 0;
  // That a server opened, the first ones and those after a loss.
  std::uint64_t opened = 0;
  // Of these, those that went past a front, those whose files were cut by this side, and those
  // whose bytes lay in memory that the server sees.
  std::uint64_t direct = 0;
  std::uint64_t cut_here = 0;
  std::uint64_t shared = 0;
  // Why the last stream that was to go past a front did not; OK: all did, or none was to.
  absl::Status detour;
};

// Thread-safe.
class StreamTally {
 public:
  // Has an upload tell of its streams here. This must outlive the upload.
  void Watch(client::ResumingUpload::Options& upload);

  // Of all streams up to now.
  StreamCounts counts() const;

 private:
  std::atomic<std::uint64_t> resumed_{0};
  std::atomic<std::uint64_t> opened_{0};
  std::atomic<std::uint64_t> direct_{0};
  std::atomic<std::uint64_t> cut_here_{0};
  std::atomic<std::uint64_t> shared_{0};
  mutable std::mutex mutex_;
  absl::Status detour_;
};

}  // namespace kerf::agent
