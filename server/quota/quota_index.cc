#include "server/quota/quota_index.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/task.h"
#include "server/errors/errors.h"

namespace kerf {

// The caller's arguments, which are there until the answer.
struct QuotaIndex::Commitment {
  const RepositoryId& repository;
  std::uint64_t session_epoch = 0;
  std::span<const IndexEntry> entries;
  bool replace = false;
  std::uint64_t limit = 0;
};

Task<absl::Status> QuotaIndex::Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                                      std::span<const IndexEntry> entries, bool replace) {
  const std::optional<std::uint64_t> limit = quotas_.MaxEntriesOf(repository.name);
  if (!limit.has_value() || TryFill(repository, entries.size(), *limit)) {
    return ForwardingIndex::Commit(repository, session_epoch, entries, replace);
  }
  return CommitWithin({repository, session_epoch, entries, replace, *limit});
}

Task<absl::Status> QuotaIndex::CommitWithin(Commitment commitment) {
  const auto& [repository, session_epoch, entries, replace, limit] = commitment;
  bool has_room = false;
  if (!IsKnownToBeFull(repository, limit)) {
    KERF_CO_ASSIGN_OR_RETURN(const IndexStats stats, co_await Stats(repository));
    Remember(repository, stats.entry_count);
    has_room = TryFill(repository, entries.size(), limit);
  }
  if (!has_room) {
    KERF_CO_ASSIGN_OR_RETURN(const std::uint64_t new_count,
                             co_await CountNew(repository, session_epoch, entries));
    if (new_count > 0 && !TryFill(repository, new_count, limit)) {
      quotas_.CountExceeded(QuotaKind::kEntries);
      co_return QuotaExceeded(Cat("repository '", repository.name, "'"),
                              Cat("at most ", limit, " entries"), std::chrono::milliseconds(0));
    }
  }
  co_return co_await ForwardingIndex::Commit(repository, session_epoch, entries, replace);
}

Task<absl::StatusOr<std::uint64_t>> QuotaIndex::CountNew(const RepositoryId& repository,
                                                         std::uint64_t session_epoch,
                                                         std::span<const IndexEntry> entries) {
  std::vector<Digest> digests;
  digests.reserve(entries.size());
  for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
  std::vector<LookupResult> results(digests.size());
  KERF_CO_RETURN_IF_ERROR(co_await Lookup(repository, session_epoch, digests, results));
  co_return static_cast<std::uint64_t>(
      std::count_if(results.begin(), results.end(),
                    [](const LookupResult& result) { return result.verdict == Verdict::kNew; }));
}

bool QuotaIndex::TryFill(const RepositoryId& repository, std::uint64_t count, std::uint64_t limit) {
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(repository);
  if (found == known_.end() || now - found->second.at >= options_.life) return false;
  std::uint64_t& entry_count = found->second.entry_count;
  if (entry_count > limit || count > limit - entry_count) return false;
  entry_count += count;
  return true;
}

bool QuotaIndex::IsKnownToBeFull(const RepositoryId& repository, std::uint64_t limit) {
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(repository);
  return found != known_.end() && found->second.entry_count >= limit &&
         now - found->second.at < options_.full_life;
}

void QuotaIndex::Remember(const RepositoryId& repository, std::uint64_t entry_count) {
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  if (known_.size() >= options_.capacity && !known_.contains(repository)) {
    std::erase_if(known_,
                  [&](const auto& known) { return now - known.second.at >= options_.life; });
  }
  // What goes is asked for once more.
  if (known_.size() >= options_.capacity && !known_.contains(repository)) known_.clear();
  known_[repository] = {entry_count, now};
}

}  // namespace kerf
