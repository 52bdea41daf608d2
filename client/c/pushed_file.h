// A file that its writer gives piece by piece to somebody who reads it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf::c {

// The reader has a thread of its own, which ends with the file. Write, End, Abandon and the
// destructor belong to one thread at a time.
class PushedFile {
 public:
  // Fills the span with the next bytes; 0 is the end.
  using Reader = std::function<absl::StatusOr<std::size_t>(std::span<std::uint8_t>)>;
  // Reads it to its end, or until it has failed itself; what it throws for want of memory is a
  // failure, too (client/cpp/out_of_memory.h).
  using Send = std::function<absl::Status(const Reader&)>;

  explicit PushedFile(const Send& send);
  // As Abandon, if it has not ended.
  ~PushedFile();
  PushedFile(const PushedFile&) = delete;
  PushedFile& operator=(const PushedFile&) = delete;

  // Returns once nothing of `bytes` is needed any more. What `send` has failed with.
  absl::Status Write(std::span<const std::uint8_t> bytes);
  // What `send` has returned.
  absl::Status End();
  // The reader is told `why`. What `send` has returned.
  absl::Status Abandon(const absl::Status& why);

 private:
  absl::StatusOr<std::size_t> Read(std::span<std::uint8_t> span);
  absl::Status Give(std::span<const std::uint8_t> bytes);
  absl::Status Finish(const absl::Status& end);

  // Of small pieces, which go on together. Only the writer.
  std::vector<std::uint8_t> collected_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // What the reader may take; the writer waits until it has.
  std::span<const std::uint8_t> given_;
  bool has_ended_ = false;
  absl::Status end_;
  bool is_sent_ = false;
  absl::Status sent_;

  // Last: it uses all of the above.
  std::thread thread_;
};

}  // namespace kerf::c
