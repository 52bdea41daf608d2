// Tells the index of chunks whose stream was lost before it had answered their commit.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/limits.h"
#include "client/cpp/call_cancellation.h"
#include "client/cpp/retry.h"
#include "client/store/format/chunk_ref.h"
#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// Another stream would not take them: it was not asked for them. What fails here costs later
// backups that meet the chunks, and no snapshot. Thread-safe.
class LateCommits {
 public:
  // Writes entries of at most kMaxBatch chunks; ends soon once it is cancelled.
  using Send = std::function<absl::Status(std::span<const StoredChunk>, client::CallCancellation&)>;

  // The length of a chunk that the store has at this place; nothing: it has none.
  using LengthAt =
      std::function<std::optional<std::uint32_t>(const Digest& digest, std::string_view locator)>;

  LateCommits(LengthAt length_at, const client::RetryLimits& retry, std::uint64_t seed, Send send,
              std::chrono::milliseconds finish_limit = kFinishLimit);
  // Ends all trying.
  ~LateCommits();
  LateCommits(const LateCommits&) = delete;
  LateCommits& operator=(const LateCommits&) = delete;

  // Of chunks that are durable. Waits for nobody but `length_at`, which may read the disk.
  void Add(std::vector<v1::CommitEntry> entries);
  // Waits until all of them are written, have failed for good, or `finish_limit` is over: then
  // ends all trying, and says why.
  absl::Status Finish();
  // Ends all waiting and calls; what is not written yet fails with Cancelled.
  void Stop();

  static constexpr std::chrono::seconds kFinishLimit{15};
  static constexpr std::size_t kMaxBatch = limits::kMaxLateCommitEntries;
  // Of what waits: some 100 MB.
  static constexpr std::size_t kMaxWaiting = std::size_t{1} << 20;

 private:
  void StopLocked();
  void Run();
  absl::Status SendBatch(std::span<const StoredChunk> batch);

  const LengthAt length_at_;
  const Send send_;
  const std::chrono::milliseconds finish_limit_;
  client::CallCancellation cancellation_;
  // Only Run.
  client::RetryPlan plan_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StoredChunk> waiting_;
  bool sending_ = false;
  bool stopped_ = false;
  absl::Status failure_;
  // Of the last try, while another one is to come.
  absl::Status last_error_;

  // Last: uses all of the above.
  std::thread thread_;
};

}  // namespace kerf::agent
