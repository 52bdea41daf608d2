#include "client/agent/backup/late_commits.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace kerf::agent {

LateCommits::LateCommits(LengthAt length_at, const client::RetryLimits& retry, std::uint64_t seed,
                         Send send, std::chrono::milliseconds finish_limit)
    : length_at_(std::move(length_at)),
      send_(std::move(send)),
      finish_limit_(finish_limit),
      plan_(retry, seed),
      thread_([this] { Run(); }) {}

LateCommits::~LateCommits() {
  Stop();
  thread_.join();
}

void LateCommits::Add(std::vector<v1::CommitEntry> entries) {
  std::vector<StoredChunk> chunks;
  for (v1::CommitEntry& entry : entries) {
    StoredChunk& chunk = chunks.emplace_back();
    std::memcpy(chunk.digest.bytes.data(), entry.digest().data(),
                std::min(entry.digest().size(), chunk.digest.bytes.size()));
    const std::optional<std::uint32_t> length_bytes = length_at_(chunk.digest, entry.locator());
    // Only what the store has is ever committed, but nothing else may be.
    if (!length_bytes.has_value()) {
      chunks.pop_back();
      continue;
    }
    chunk.length_bytes = *length_bytes;
    chunk.locator = std::move(*entry.mutable_locator());
  }
  std::lock_guard lock(mutex_);
  // After a failure the index is behind anyway, and a server that is away for long must not cost
  // the agent its memory.
  if (!failure_.ok() || stopped_) return;
  if (waiting_.size() + chunks.size() > kMaxWaiting) {
    failure_ = client::OfCall(absl::ResourceExhaustedError("too many commits waited for a server"),
                              last_error_);
    waiting_.clear();
    return;
  }
  std::move(chunks.begin(), chunks.end(), std::back_inserter(waiting_));
  changed_.notify_all();
}

absl::Status LateCommits::Finish() {
  std::unique_lock lock(mutex_);
  const bool is_over = changed_.wait_for(
      lock, finish_limit_, [this] { return stopped_ || (waiting_.empty() && !sending_); });
  if (!is_over) {
    StopLocked();
    const double seconds = std::chrono::duration<double>(finish_limit_).count();
    const std::string_view why =
        last_error_.ok() ? "the server does not answer" : MessageOf(last_error_);
    return client::OfCall(absl::UnavailableError(ToAbsl(
                              Cat("commits whose stream was lost could not be sent again within ",
                                  seconds, " s: ", why))),
                          last_error_);
  }
  if (failure_.ok() && (sending_ || !waiting_.empty())) {
    return absl::CancelledError("the backup was interrupted");
  }
  return failure_;
}

void LateCommits::Stop() {
  std::lock_guard lock(mutex_);
  StopLocked();
}

void LateCommits::StopLocked() {
  stopped_ = true;
  cancellation_.Cancel();
  changed_.notify_all();
}

void LateCommits::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
    if (stopped_) return;
    std::vector<StoredChunk> chunks = std::exchange(waiting_, {});
    sending_ = true;
    absl::Status status;
    for (std::size_t begin = 0; begin < chunks.size() && status.ok(); begin += kMaxBatch) {
      const std::size_t count = std::min(kMaxBatch, chunks.size() - begin);
      lock.unlock();
      status = SendBatch(std::span(chunks).subspan(begin, count));
      lock.lock();
    }
    sending_ = false;
    if (!status.ok()) {
      if (failure_.ok()) failure_ = status;
      waiting_.clear();
    }
    changed_.notify_all();
  }
}

absl::Status LateCommits::SendBatch(std::span<const StoredChunk> batch) {
  while (true) {
    const absl::Status status = send_(batch, cancellation_);
    if (status.ok()) {
      plan_.Progress();
      // What was said of another batch is not why this end comes.
      const std::lock_guard lock(mutex_);
      last_error_ = absl::OkStatus();
      return status;
    }
    const auto now = std::chrono::steady_clock::now();
    // Also one that may be written by now, or later (COL-25): every write is idempotent, and the
    // epoch is still that of the session, so that a collection refuses what it must.
    const auto wait =
        plan_.WaitAfter(client::LossOfRepeatable(status), client::AskedWaitOf(status), now);
    if (!wait.has_value()) return status;
    std::unique_lock lock(mutex_);
    last_error_ = status;
    if (changed_.wait_until(lock, now + *wait, [this] { return stopped_; })) return status;
  }
}

}  // namespace kerf::agent
