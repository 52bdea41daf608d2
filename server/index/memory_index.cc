#include "server/index/memory_index.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "absl/container/btree_map.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/index/arguments.h"
#include "server/index/epoch_fence.h"
#include "server/index/rules.h"

namespace kerf {
namespace {

// One shard for each value of a digest's first byte: shards in order are digests in order.
constexpr std::size_t kShardCount = 256;

struct Repository {
  std::uint32_t number = 0;
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<std::uint64_t> entry_count{0};
  // Entries that have gone since the epoch was raised. Counted under the shard's lock: whoever
  // finds an entry gone finds it counted.
  std::atomic<std::uint64_t> removed_count{0};
  std::atomic<bool> is_created{false};
  // By Drop, for good; within the fence.
  bool is_dropped = false;
};
// One that is dropped stays closed for those who still have it.
using RepositoryPtr = std::shared_ptr<Repository>;

struct Key {
  std::uint32_t repository_number = 0;
  Digest digest;

  friend bool operator==(const Key&, const Key&) = default;
  friend auto operator<=>(const Key&, const Key&) = default;
};

struct Value {
  std::uint64_t epoch = 0;
  std::uint32_t length_bytes = 0;
  std::string locator;
};

// Ordered, so that a scan needs no sort and no peer can choose digests that collide.
struct Shard {
  mutable std::shared_mutex mutex;
  absl::btree_map<Key, Value> entries;
};

class MemoryIndex : public Index {
 public:
  explicit MemoryIndex(const MemoryIndexOptions& options) : options_(options) {}

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override;
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override;
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override;
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override;
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override;
  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override;
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override;
  Task<absl::StatusOr<bool>> Create(const RepositoryId& repository) override;
  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& repository) override;
  Task<absl::StatusOr<bool>> IsThere(const RepositoryId& repository) override;
  Task<absl::StatusOr<std::vector<ListedRepository>>> List(const std::optional<RepositoryId>& after,
                                                           std::size_t limit) override;
  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                        const std::optional<Digest>& after,
                                        std::size_t limit) override;
  Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                              const std::optional<Digest>& after,
                                              std::size_t limit) override;
  std::string_view backend_name() const override { return "memory"; }
  bool answers_at_once() const override { return true; }
  IndexSize size() const override;

 private:
  // Null if nothing was ever written to it: lookups of made-up names cost no memory.
  RepositoryPtr Find(const RepositoryId& repository) const;
  absl::StatusOr<RepositoryPtr> FindOrCreate(const RepositoryId& repository);
  // Unless another one has that name by now.
  void Remove(const RepositoryId& repository, const RepositoryPtr& known);
  // Visits up to `limit` entries behind `after` in digest order, and erases those of which `goes`,
  // which may change them, says so. The last that was seen; nothing if that was to the end.
  template <typename Goes>
  std::optional<Digest> Walk(const Repository& repository, const std::optional<Digest>& after,
                             std::size_t limit, const Goes& goes);
  absl::Status Charge();
  absl::Status CommitOne(Repository& repository, std::uint64_t session_epoch,
                         const IndexEntry& entry, bool replace);
  void CountRemoved(Repository& repository);
  Shard& ShardOf(const Digest& digest) { return shards_[digest.bytes[0]]; }

  const MemoryIndexOptions options_;
  std::atomic<std::uint64_t> charged_count_{0};
  mutable std::shared_mutex repositories_mutex_;
  std::map<RepositoryId, RepositoryPtr, RepositoryOrder> repositories_;
  // Never one that was used before, or a commit that was late could meet another's entries.
  std::uint32_t next_number_ = 0;
  EpochFence fence_;
  std::array<Shard, kShardCount> shards_;
};

IndexSize MemoryIndex::size() const {
  IndexTotals totals;
  const std::shared_lock lock(repositories_mutex_);
  for (const auto& [id, repository] : repositories_) {
    const std::uint64_t entry_count = repository->entry_count.load();
    totals.repository_count += entry_count > 0 ? 1 : 0;
    totals.entry_count += entry_count;
    const std::uint64_t epoch = repository->epoch.load();
    if (epoch != index_rules::kClosedEpoch) totals.epoch = std::max(totals.epoch, epoch);
  }
  return {.totals = totals};
}

RepositoryPtr MemoryIndex::Find(const RepositoryId& repository) const {
  const std::shared_lock lock(repositories_mutex_);
  const auto found = repositories_.find(repository);
  return found == repositories_.end() ? nullptr : found->second;
}

absl::StatusOr<RepositoryPtr> MemoryIndex::FindOrCreate(const RepositoryId& repository) {
  if (RepositoryPtr found = Find(repository); found != nullptr) return found;
  const std::unique_lock lock(repositories_mutex_);
  RepositoryPtr& place = repositories_[repository];
  if (place != nullptr) return place;
  if (absl::Status status = Charge(); !status.ok()) {
    repositories_.erase(repository);
    return status;
  }
  place = std::make_shared<Repository>();
  place->number = next_number_++;
  return place;
}

void MemoryIndex::Remove(const RepositoryId& repository, const RepositoryPtr& known) {
  const std::unique_lock lock(repositories_mutex_);
  const auto found = repositories_.find(repository);
  if (found == repositories_.end() || found->second != known) return;
  repositories_.erase(found);
  charged_count_.fetch_sub(1, std::memory_order_relaxed);
}

absl::Status MemoryIndex::Charge() {
  const std::uint64_t before = charged_count_.fetch_add(1, std::memory_order_relaxed);
  if (options_.max_entry_count == 0 || before < options_.max_entry_count) return absl::OkStatus();
  charged_count_.fetch_sub(1, std::memory_order_relaxed);
  return absl::ResourceExhaustedError(
      ToAbsl(Cat("the index in memory is full: it may hold ", options_.max_entry_count,
                 " entries; allow more or use the embedded index")));
}

Task<absl::Status> MemoryIndex::Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                                       std::span<const Digest> digests,
                                       std::span<LookupResult> results) {
  KERF_RETURN_IF_ERROR(ValidateLookup(repository, digests, results.size()));
  std::fill(results.begin(), results.end(), LookupResult{});
  const RepositoryPtr known = Find(repository);
  // Before the entries: an entry that is read after the epoch was raised was not forgotten by then.
  const std::uint64_t repository_epoch = known == nullptr ? 0 : known->epoch.load();
  KERF_RETURN_IF_ERROR(index_rules::CheckNotAhead(session_epoch, repository_epoch));
  if (known == nullptr) return absl::OkStatus();
  for (std::size_t index = 0; index < digests.size(); ++index) {
    results[index].repository_epoch = index_rules::EpochToTell(repository_epoch);
    Shard& shard = ShardOf(digests[index]);
    const std::shared_lock lock(shard.mutex);
    const auto found = shard.entries.find(Key{known->number, digests[index]});
    if (found == shard.entries.end()) continue;
    const Value& value = found->second;
    results[index].verdict = index_rules::VerdictOf(value.epoch, repository_epoch, session_epoch);
    results[index].length_bytes = value.length_bytes;
    results[index].locator = value.locator;
  }
  return absl::OkStatus();
}

absl::Status MemoryIndex::CommitOne(Repository& repository, std::uint64_t session_epoch,
                                    const IndexEntry& entry, bool replace) {
  const std::uint64_t repository_epoch = repository.epoch.load();
  const Key key{repository.number, entry.digest};
  Shard& shard = ShardOf(entry.digest);
  const std::unique_lock lock(shard.mutex);
  const auto found = shard.entries.lower_bound(key);
  const bool is_there = found != shard.entries.end() && found->first == key;
  const std::optional<std::uint64_t> held_epoch =
      is_there ? std::optional(found->second.epoch) : std::nullopt;
  const std::optional<std::uint64_t> epoch =
      index_rules::EpochToWrite(held_epoch, repository_epoch, session_epoch, replace);
  if (!epoch.has_value()) return absl::OkStatus();
  Value value{*epoch, entry.length_bytes, entry.locator};
  if (is_there) {
    found->second = std::move(value);
    return absl::OkStatus();
  }
  KERF_RETURN_IF_ERROR(Charge());
  shard.entries.insert(found, {key, std::move(value)});
  repository.entry_count.fetch_add(1);
  return absl::OkStatus();
}

Task<absl::Status> MemoryIndex::Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                                       std::span<const IndexEntry> entries, bool replace) {
  KERF_RETURN_IF_ERROR(ValidateCommit(repository, entries));
  if (entries.empty()) return absl::OkStatus();
  KERF_ASSIGN_OR_RETURN(const RepositoryPtr known, FindOrCreate(repository));
  const auto inside = fence_.EnterCommit();
  KERF_RETURN_IF_ERROR(CheckSessionEpoch(session_epoch, known->epoch.load()));
  for (const IndexEntry& entry : entries) {
    KERF_RETURN_IF_ERROR(CommitOne(*known, session_epoch, entry, replace));
  }
  return absl::OkStatus();
}

Task<absl::StatusOr<ForgetResult>> MemoryIndex::Forget(const RepositoryId& repository,
                                                       std::span<const IndexEntry> entries) {
  KERF_RETURN_IF_ERROR(ValidateForget(repository, entries));
  ForgetResult result;
  const RepositoryPtr known = Find(repository);
  if (known == nullptr) return result;
  const auto inside = fence_.EnterCommit();
  result.epoch = known->epoch.load();
  for (const IndexEntry& entry : entries) {
    Shard& shard = ShardOf(entry.digest);
    const std::unique_lock lock(shard.mutex);
    const auto found = shard.entries.find(Key{known->number, entry.digest});
    if (found == shard.entries.end()) continue;
    if (!index_rules::IsForgotten(found->second.locator, entry.locator)) continue;
    shard.entries.erase(found);
    CountRemoved(*known);
    ++result.forgotten_count;
  }
  result.removed_count = known->removed_count.load();
  return result;
}

void MemoryIndex::CountRemoved(Repository& repository) {
  repository.entry_count.fetch_sub(1);
  repository.removed_count.fetch_add(1);
  charged_count_.fetch_sub(1, std::memory_order_relaxed);
}

template <typename Goes>
std::optional<Digest> MemoryIndex::Walk(const Repository& repository,
                                        const std::optional<Digest>& after, std::size_t limit,
                                        const Goes& goes) {
  std::optional<Digest> last;
  std::size_t seen_count = 0;
  for (std::size_t index = after.has_value() ? after->bytes[0] : 0;
       index < kShardCount && seen_count < limit; ++index) {
    Shard& shard = shards_[index];
    const std::unique_lock lock(shard.mutex);
    auto at = after.has_value() ? shard.entries.upper_bound(Key{repository.number, *after})
                                : shard.entries.lower_bound(Key{repository.number, Digest{}});
    while (at != shard.entries.end() && at->first.repository_number == repository.number &&
           seen_count < limit) {
      ++seen_count;
      last = at->first.digest;
      if (goes(at->second)) {
        at = shard.entries.erase(at);
      } else {
        ++at;
      }
    }
  }
  if (seen_count < limit) last.reset();
  return last;
}

Task<absl::StatusOr<ForgetOlderResult>> MemoryIndex::ForgetOlder(const RepositoryId& repository,
                                                                 std::uint64_t epoch,
                                                                 const std::optional<Digest>& after,
                                                                 std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateStep(repository, after, limit));
  ForgetOlderResult result;
  const RepositoryPtr known = Find(repository);
  const auto inside = fence_.EnterCommit();
  result.forgotten.epoch = known == nullptr ? 0 : known->epoch.load();
  KERF_RETURN_IF_ERROR(index_rules::CheckNotAhead(epoch, result.forgotten.epoch));
  if (known == nullptr) return result;
  result.last = Walk(*known, after, limit, [&](const Value& value) {
    if (!index_rules::IsOlder(value.epoch, epoch)) return false;
    CountRemoved(*known);
    ++result.forgotten.forgotten_count;
    return true;
  });
  result.forgotten.removed_count = known->removed_count.load();
  return result;
}

Task<absl::StatusOr<std::uint64_t>> MemoryIndex::AdvanceEpoch(const RepositoryId& repository,
                                                              std::uint64_t epoch,
                                                              std::uint64_t min_before) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  KERF_ASSIGN_OR_RETURN(const RepositoryPtr known, FindOrCreate(repository));
  const auto alone = fence_.EnterAdvance();
  const std::uint64_t before = known->epoch.load();
  if (before < min_before) return before;
  KERF_RETURN_IF_ERROR(index_rules::CheckAdvance(before, epoch));
  if (epoch > before) known->removed_count.store(0);
  known->epoch.store(epoch);
  return before;
}

Task<absl::StatusOr<std::vector<IndexEntry>>> MemoryIndex::Scan(const RepositoryId& repository,
                                                                const std::optional<Digest>& after,
                                                                std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateScan(repository, after));
  std::vector<IndexEntry> page;
  const RepositoryPtr known = Find(repository);
  if (known == nullptr) return page;
  const std::size_t first = after.has_value() ? after->bytes[0] : 0;
  for (std::size_t index = first; index < kShardCount && page.size() < limit; ++index) {
    const Shard& shard = shards_[index];
    const std::shared_lock lock(shard.mutex);
    auto at = after.has_value() ? shard.entries.upper_bound(Key{known->number, *after})
                                : shard.entries.lower_bound(Key{known->number, Digest{}});
    for (; at != shard.entries.end() && at->first.repository_number == known->number &&
           page.size() < limit;
         ++at) {
      page.push_back({at->first.digest, at->second.length_bytes, at->second.locator});
    }
  }
  return page;
}

Task<absl::StatusOr<IndexStats>> MemoryIndex::Stats(const RepositoryId& repository) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  const RepositoryPtr known = Find(repository);
  if (known == nullptr) return IndexStats{};
  return IndexStats{.entry_count = known->entry_count.load(), .epoch = known->epoch.load()};
}

Task<absl::StatusOr<bool>> MemoryIndex::Create(const RepositoryId& repository) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  KERF_ASSIGN_OR_RETURN(const RepositoryPtr known, FindOrCreate(repository));
  return !known->is_created.exchange(true);
}

Task<absl::StatusOr<bool>> MemoryIndex::IsCreated(const RepositoryId& repository) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  const RepositoryPtr known = Find(repository);
  return known != nullptr && known->is_created.load();
}

Task<absl::StatusOr<bool>> MemoryIndex::IsThere(const RepositoryId& repository) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  return Find(repository) != nullptr;
}

Task<absl::StatusOr<std::vector<ListedRepository>>> MemoryIndex::List(
    const std::optional<RepositoryId>& after, std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateList(after));
  std::vector<ListedRepository> page;
  const std::shared_lock lock(repositories_mutex_);
  auto at = after.has_value() ? repositories_.upper_bound(*after) : repositories_.begin();
  for (; at != repositories_.end() && page.size() < limit; ++at) {
    page.push_back({at->first, at->second->is_created.load()});
  }
  return page;
}

Task<absl::StatusOr<StepResult>> MemoryIndex::Drop(const RepositoryId& repository,
                                                   const std::optional<Digest>& after,
                                                   std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateStep(repository, after, limit));
  StepResult result;
  const RepositoryPtr known = Find(repository);
  if (known == nullptr) return result;
  {
    const auto alone = fence_.EnterAdvance();
    known->epoch.store(index_rules::kClosedEpoch);
    known->is_created.store(false);
  }
  result.last = Walk(*known, after, limit, [&](const Value& /*value*/) {
    CountRemoved(*known);
    ++result.changed_count;
    return true;
  });
  if (result.last.has_value()) return result;
  const auto alone = fence_.EnterAdvance();
  if (known->entry_count.load() > 0) return LeftOut();
  known->is_dropped = true;
  known->epoch.store(index_rules::kClosedEpoch);
  Remove(repository, known);
  return result;
}

Task<absl::StatusOr<StepResult>> MemoryIndex::ResetEpoch(const RepositoryId& repository,
                                                         std::uint64_t epoch,
                                                         const std::optional<Digest>& after,
                                                         std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateStep(repository, after, limit));
  KERF_RETURN_IF_ERROR(index_rules::CheckReset(epoch));
  KERF_ASSIGN_OR_RETURN(const RepositoryPtr known, FindOrCreate(repository));
  if (!after.has_value()) {
    const auto alone = fence_.EnterAdvance();
    known->epoch.store(index_rules::kClosedEpoch);
  }
  StepResult result;
  result.last = Walk(*known, after, limit, [&](Value& value) {
    const std::uint64_t before =
        std::exchange(value.epoch, index_rules::EpochAfterReset(value.epoch, epoch));
    result.changed_count += before != value.epoch ? 1 : 0;
    return false;
  });
  if (result.last.has_value()) return result;
  const auto alone = fence_.EnterAdvance();
  if (!known->is_dropped) known->epoch.store(epoch);
  return result;
}

}  // namespace

std::unique_ptr<Index> CreateMemoryIndex(const MemoryIndexOptions& options) {
  return std::make_unique<MemoryIndex>(options);
}

std::unique_ptr<Index> CreateMemoryIndex() { return CreateMemoryIndex(MemoryIndexOptions{}); }

}  // namespace kerf
