// What of an upload is told to the index: on its streams, or behind one that was lost.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/c/error.h"
#include "client/c/upload.h"

namespace kerf::c {
namespace {

// Reported and not committed; a server has a limit for them, too (CLI-7), of 4,096 at least.
constexpr std::size_t kMaxStale = 2048;
// Of chunks whose commit may not be answered yet: more than a server lets be pending.
constexpr std::size_t kMaxRemembered = std::size_t{1} << 17;
// Of what lost streams have left.
constexpr std::size_t kMaxLate = kMaxRemembered;

v1::CommitEntry EntryOf(const agent::StoredChunk& chunk, std::size_t digest_size_bytes) {
  v1::CommitEntry entry;
  entry.set_digest(chunk.digest.bytes.data(), digest_size_bytes);
  entry.set_locator(chunk.locator);
  return entry;
}

}  // namespace

absl::Status Upload::CheckCommittableLocked(std::span<const agent::StoredChunk> chunks) const {
  for (const agent::StoredChunk& chunk : chunks) {
    std::uint32_t length_bytes = 0;
    if (const auto pending = pending_.find(chunk.digest); pending != pending_.end()) {
      length_bytes = pending->second.length_bytes;
    } else if (const auto stale = stale_.find(chunk.digest); stale != stale_.end()) {
      length_bytes = stale->second;
    } else if (const auto known = committed_.find(chunk.digest); known != committed_.end()) {
      length_bytes = known->second;
    } else {
      return ErrorOf(KERF_BAD_ARGUMENT,
                     Cat("the chunk ", DigestToHex(chunk.digest, reach_.digest_size_bytes()),
                         " is neither pending in this upload nor reported stale; nothing was "
                         "committed"));
    }
    if (length_bytes == chunk.length_bytes) continue;
    return ErrorOf(
        KERF_BAD_ARGUMENT,
        Cat("the chunk ", DigestToHex(chunk.digest, reach_.digest_size_bytes()), " has ",
            length_bytes, " bytes, and not ", chunk.length_bytes, "; nothing was committed"));
  }
  return absl::OkStatus();
}

void Upload::RememberLocked(const agent::StoredChunk& chunk) {
  if (!committed_.emplace(chunk.digest, chunk.length_bytes).second) return;
  committed_order_.push_back(chunk.digest);
  if (committed_order_.size() <= kMaxRemembered) return;
  committed_.erase(committed_order_.front());
  committed_order_.pop_front();
}

// How many answers they resolve; what is to be said of them into `entries`.
std::uint64_t Upload::TakePendingLocked(std::span<const agent::StoredChunk> chunks,
                                        std::vector<v1::CommitEntry>& entries) {
  std::uint64_t resolved_count = 0;
  for (const agent::StoredChunk& chunk : chunks) {
    const auto pending = pending_.find(chunk.digest);
    const bool was_stale = stale_.erase(chunk.digest) > 0;
    if (pending == pending_.end() && !was_stale) continue;
    if (pending != pending_.end()) {
      resolved_count += pending->second.answer_count;
      pending_.erase(pending);
    }
    RememberLocked(chunk);
    entries.push_back(EntryOf(chunk, reach_.digest_size_bytes()));
  }
  pending_answer_count_ -= resolved_count;
  return resolved_count;
}

absl::Status Upload::Commit(const kerf_entry* given, std::size_t count) {
  KERF_ASSIGN_OR_RETURN(const std::vector<agent::StoredChunk> chunks,
                        ReadEntries(given, count, reach_.digest_size_bytes()));
  std::vector<v1::CommitEntry> entries;
  std::uint64_t resolved_count = 0;
  {
    const std::lock_guard lock(mutex_);
    KERF_RETURN_IF_ERROR(CheckCommittableLocked(chunks));
    resolved_count = TakePendingLocked(chunks, entries);
  }
  // Without the lock: what is late comes back at once.
  if (!entries.empty()) lane_->Commit(entries, resolved_count);
  return absl::OkStatus();
}

absl::Status Upload::ReportStale(const kerf_entry* given, std::size_t count) {
  KERF_ASSIGN_OR_RETURN(const std::vector<agent::StoredChunk> chunks,
                        ReadEntries(given, count, reach_.digest_size_bytes()));
  std::vector<v1::CommitEntry> entries;
  {
    const std::lock_guard lock(mutex_);
    // However often a file has one.
    absl::flat_hash_set<Digest, DigestHash> fresh;
    for (const agent::StoredChunk& chunk : chunks) {
      if (!stale_.contains(chunk.digest)) fresh.insert(chunk.digest);
    }
    const std::size_t stale_count = stale_.size() + fresh.size();
    if (stale_count > kMaxStale) {
      return ErrorOf(KERF_WRONG_STATE, Cat(stale_count,
                                           " chunks would be reported stale and not committed; at "
                                           "most ",
                                           kMaxStale, " may be: commit first"));
    }
    for (const agent::StoredChunk& chunk : chunks) {
      // Once is enough (COL-16).
      if (!stale_.emplace(chunk.digest, chunk.length_bytes).second) continue;
      entries.push_back(EntryOf(chunk, reach_.digest_size_bytes()));
    }
    totals_.reported_count += entries.size();
  }
  if (!entries.empty()) lane_->ReportStale(entries);
  return absl::OkStatus();
}

// Whoever has reported a chunk stale owes it as one that is NEW (COL-16): a recipe has it, and the
// store has not.
absl::Status Upload::CheckAllCommitted() const {
  const std::lock_guard lock(mutex_);
  if (pending_.empty() && stale_.empty()) return absl::OkStatus();
  const std::string stale =
      stale_.empty() ? "" : Cat(" and ", stale_.size(), " that were reported stale");
  return ErrorOf(KERF_WRONG_STATE,
                 Cat("on_commit has left ", pending_.size(), " chunks that are not committed",
                     stale, ": store what is not stored, commit them, and finish again"));
}

void Upload::NoteLateCommits(std::vector<v1::CommitEntry> entries) {
  const std::lock_guard lock(mutex_);
  for (v1::CommitEntry& entry : entries) {
    agent::StoredChunk chunk;
    std::memcpy(chunk.digest.bytes.data(), entry.digest().data(),
                std::min(entry.digest().size(), chunk.digest.bytes.size()));
    const auto known = committed_.find(chunk.digest);
    if (known == committed_.end() || late_.size() == kMaxLate) {
      ++totals_.untold_count;
      continue;
    }
    chunk.length_bytes = known->second;
    chunk.locator = std::move(*entry.mutable_locator());
    late_.push_back(std::move(chunk));
  }
}

// In the epoch of the session (COL-22). What does not go waits for the next time, but for
// EPOCH_BEHIND: verdicts of that epoch count no more (COL-23).
absl::Status Upload::TellLate(std::chrono::milliseconds patience) {
  std::vector<agent::StoredChunk> late;
  {
    const std::lock_guard lock(mutex_);
    late.swap(late_);
  }
  if (late.empty()) return absl::OkStatus();
  std::span<const agent::StoredChunk> rest(late);
  const auto index = reach_.OpenIndex(patience, &late_cancellation_);
  absl::Status status = index.status();
  while (status.ok() && !rest.empty()) {
    const std::size_t count = std::min(rest.size(), limits::kMaxLateCommitEntries);
    status = (*index)->Commit(options_.store_epoch, rest.first(count));
    if (status.ok()) rest = rest.subspan(count);
  }
  if (CodeOf(status) == KERF_EPOCH_BEHIND) return Fail(status);
  const std::lock_guard lock(mutex_);
  late_.insert(late_.end(), rest.begin(), rest.end());
  return absl::OkStatus();
}

void Upload::GiveUpLate() {
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = late_.size();
    totals_.untold_count += count;
    late_.clear();
  }
  if (count > 0) {
    Notify(KERF_NOTICE_UNTOLD, Cat("the index was not told of ", count,
                                   " chunks: a later upload stores them once more"));
  }
}

}  // namespace kerf::c
