#include "server/index/memory_index.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>
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
};

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
  std::string_view backend_name() const override { return "memory"; }
  IndexSize size() const override;

 private:
  // Null if nothing was ever written to it: lookups of made-up names cost no memory.
  Repository* Find(const RepositoryId& repository);
  absl::StatusOr<Repository*> FindOrCreate(const RepositoryId& repository);
  absl::Status Charge();
  absl::Status CommitOne(Repository& repository, std::uint64_t session_epoch,
                         const IndexEntry& entry, bool replace);
  void CountRemoved(Repository& repository);
  Shard& ShardOf(const Digest& digest) { return shards_[digest.bytes[0]]; }

  const MemoryIndexOptions options_;
  std::atomic<std::uint64_t> charged_count_{0};
  mutable std::shared_mutex repositories_mutex_;
  // Nodes of a map stay where they are, and repositories are never removed.
  std::map<std::pair<std::string, DigestAlgorithm>, Repository> repositories_;
  EpochFence fence_;
  std::array<Shard, kShardCount> shards_;
};

IndexSize MemoryIndex::size() const {
  IndexTotals totals;
  const std::shared_lock lock(repositories_mutex_);
  for (const auto& [name, repository] : repositories_) {
    const std::uint64_t entry_count = repository.entry_count.load();
    totals.repository_count += entry_count > 0 ? 1 : 0;
    totals.entry_count += entry_count;
    totals.epoch = std::max(totals.epoch, repository.epoch.load());
  }
  return {.totals = totals};
}

Repository* MemoryIndex::Find(const RepositoryId& repository) {
  const std::shared_lock lock(repositories_mutex_);
  const auto found = repositories_.find({repository.name, repository.digest_algorithm});
  return found == repositories_.end() ? nullptr : &found->second;
}

absl::StatusOr<Repository*> MemoryIndex::FindOrCreate(const RepositoryId& repository) {
  if (Repository* found = Find(repository); found != nullptr) return found;
  const std::unique_lock lock(repositories_mutex_);
  std::pair key(repository.name, repository.digest_algorithm);
  const auto found = repositories_.find(key);
  if (found != repositories_.end()) return &found->second;
  KERF_RETURN_IF_ERROR(Charge());
  const auto number = static_cast<std::uint32_t>(repositories_.size());
  Repository& created = repositories_[std::move(key)];
  created.number = number;
  return &created;
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
  const Repository* known = Find(repository);
  // Before the entries: an entry that is read after the epoch was raised was not forgotten by then.
  const std::uint64_t repository_epoch = known == nullptr ? 0 : known->epoch.load();
  KERF_RETURN_IF_ERROR(index_rules::CheckNotAhead(session_epoch, repository_epoch));
  if (known == nullptr) return absl::OkStatus();
  for (std::size_t index = 0; index < digests.size(); ++index) {
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
  KERF_ASSIGN_OR_RETURN(Repository * known, FindOrCreate(repository));
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
  Repository* known = Find(repository);
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

Task<absl::StatusOr<ForgetOlderResult>> MemoryIndex::ForgetOlder(const RepositoryId& repository,
                                                                 std::uint64_t epoch,
                                                                 const std::optional<Digest>& after,
                                                                 std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateForgetOlder(repository, after, limit));
  ForgetOlderResult result;
  Repository* known = Find(repository);
  const auto inside = fence_.EnterCommit();
  result.forgotten.epoch = known == nullptr ? 0 : known->epoch.load();
  KERF_RETURN_IF_ERROR(index_rules::CheckNotAhead(epoch, result.forgotten.epoch));
  if (known == nullptr) return result;
  std::size_t seen_count = 0;
  for (std::size_t index = after.has_value() ? after->bytes[0] : 0;
       index < kShardCount && seen_count < limit; ++index) {
    Shard& shard = shards_[index];
    const std::unique_lock lock(shard.mutex);
    auto at = after.has_value() ? shard.entries.upper_bound(Key{known->number, *after})
                                : shard.entries.lower_bound(Key{known->number, Digest{}});
    while (at != shard.entries.end() && at->first.repository_number == known->number &&
           seen_count < limit) {
      ++seen_count;
      result.last = at->first.digest;
      if (!index_rules::IsOlder(at->second.epoch, epoch)) {
        ++at;
        continue;
      }
      at = shard.entries.erase(at);
      CountRemoved(*known);
      ++result.forgotten.forgotten_count;
    }
  }
  if (seen_count < limit) result.last.reset();
  result.forgotten.removed_count = known->removed_count.load();
  return result;
}

Task<absl::StatusOr<std::uint64_t>> MemoryIndex::AdvanceEpoch(const RepositoryId& repository,
                                                              std::uint64_t epoch,
                                                              std::uint64_t min_before) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  KERF_ASSIGN_OR_RETURN(Repository * known, FindOrCreate(repository));
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
  const Repository* known = Find(repository);
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
  const Repository* known = Find(repository);
  if (known == nullptr) return IndexStats{};
  return IndexStats{.entry_count = known->entry_count.load(), .epoch = known->epoch.load()};
}

}  // namespace

std::unique_ptr<Index> CreateMemoryIndex(const MemoryIndexOptions& options) {
  return std::make_unique<MemoryIndex>(options);
}

std::unique_ptr<Index> CreateMemoryIndex() { return CreateMemoryIndex(MemoryIndexOptions{}); }

}  // namespace kerf
