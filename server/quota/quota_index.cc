#include "server/quota/quota_index.h"

#include <algorithm>
#include <utility>

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
  if (!limit.has_value() || TryPass(repository, entries.size(), *limit)) {
    return ForwardingIndex::Commit(repository, session_epoch, entries, replace);
  }
  return CommitWithin({repository, session_epoch, entries, replace, *limit});
}

Task<absl::Status> QuotaIndex::CommitWithin(Commitment commitment) {
  const auto& [repository, session_epoch, entries, replace, limit] = commitment;
  if (IsUncertain(repository, entries.size(), limit)) {
    KERF_CO_ASSIGN_OR_RETURN(const IndexStats stats, co_await Stats(repository));
    Remember(repository, stats.entry_count);
  }
  if (!TryPass(repository, entries.size(), limit)) {
    KERF_CO_ASSIGN_OR_RETURN(const std::vector<IndexEntry> known,
                             co_await KnownOf(repository, session_epoch, entries));
    const std::uint64_t new_count = entries.size() - known.size();
    if (new_count > 0 && !TryFill(repository, new_count, limit)) {
      quotas_.CountExceeded(QuotaKind::kEntries);
      if (!known.empty()) {
        KERF_CO_RETURN_IF_ERROR(
            co_await ForwardingIndex::Commit(repository, session_epoch, known, replace));
      }
      co_return QuotaExceeded(Cat("repository '", repository.name, "'"),
                              Cat("at most ", limit, " entries"), std::chrono::milliseconds(0));
    }
  }
  co_return co_await ForwardingIndex::Commit(repository, session_epoch, entries, replace);
}

Task<absl::StatusOr<std::vector<IndexEntry>>> QuotaIndex::KnownOf(
    const RepositoryId& repository, std::uint64_t session_epoch,
    std::span<const IndexEntry> entries) {
  std::vector<Digest> digests;
  digests.reserve(entries.size());
  for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
  std::vector<LookupResult> results(digests.size());
  KERF_CO_RETURN_IF_ERROR(co_await Lookup(repository, session_epoch, digests, results));
  std::vector<IndexEntry> known;
  for (std::size_t index = 0; index < results.size(); ++index) {
    if (results[index].verdict != Verdict::kNew) known.push_back(entries[index]);
  }
  co_return known;
}

template <typename Result>
Task<absl::StatusOr<Result>> QuotaIndex::ForgetKnownAfter(RepositoryId repository,
                                                          Task<absl::StatusOr<Result>> call) {
  absl::StatusOr<Result> result = co_await call;
  const std::lock_guard lock(mutex_);
  known_.erase(repository);
  co_return result;
}

Task<absl::StatusOr<ForgetResult>> QuotaIndex::Forget(const RepositoryId& repository,
                                                      std::span<const IndexEntry> entries) {
  return ForgetKnownAfter(repository, ForwardingIndex::Forget(repository, entries));
}

Task<absl::StatusOr<ForgetOlderResult>> QuotaIndex::ForgetOlder(const RepositoryId& repository,
                                                                std::uint64_t epoch,
                                                                const std::optional<Digest>& after,
                                                                std::size_t limit) {
  return ForgetKnownAfter(repository,
                          ForwardingIndex::ForgetOlder(repository, epoch, after, limit));
}

Task<absl::StatusOr<StepResult>> QuotaIndex::Drop(const RepositoryId& repository,
                                                  const std::optional<Digest>& after,
                                                  std::size_t limit) {
  return ForgetKnownAfter(repository, ForwardingIndex::Drop(repository, after, limit));
}

bool QuotaIndex::TryPass(const RepositoryId& repository, std::uint64_t count, std::uint64_t limit) {
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(repository);
  if (found == known_.end() || now - found->second.at >= options_.life) return false;
  Known& known = found->second;
  if (known.counted + known.used_count() + count + options_.margin > limit) return false;
  if (known.used_count() + count > AllowanceOf(known, limit)) return false;
  known.passed_count += count;
  return true;
}

bool QuotaIndex::TryFill(const RepositoryId& repository, std::uint64_t count, std::uint64_t limit) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(repository);
  // It went to make room for others, just now.
  if (found == known_.end()) return true;
  Known& known = found->second;
  if (known.counted + known.new_count + count > limit) return false;
  known.new_count += count;
  return true;
}

std::uint64_t QuotaIndex::AllowanceOf(const Known& known, std::uint64_t limit) const {
  const std::uint64_t room = limit - std::min(limit, known.counted);
  return is_remote() ? std::max(options_.margin, room / options_.shared_part) : room;
}

bool QuotaIndex::IsUncertain(const RepositoryId& repository, std::uint64_t count,
                             std::uint64_t limit) {
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(repository);
  if (found == known_.end() || now - found->second.at >= options_.life) return true;
  const Known& known = found->second;
  // Of what is known to be new nobody has to count anew, as long as nobody else adds to it.
  const bool is_used_up =
      known.new_count > 0 && is_remote() && known.new_count + count > AllowanceOf(known, limit);
  return known.passed_count > 0 || is_used_up;
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
  known_[repository] = {.counted = entry_count, .at = now};
}

}  // namespace kerf
