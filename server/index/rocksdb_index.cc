#include "server/index/rocksdb_index.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"
#include "server/index/arguments.h"
#include "server/index/codec.h"
#include "server/index/entry_batch.h"
#include "server/index/epoch_fence.h"
#include "server/index/last_writes.h"
#include "server/index/rocksdb_repositories.h"
#include "server/index/rocksdb_store.h"
#include "server/index/rules.h"
#include "server/index/sequence_mark.h"

namespace kerf {
namespace {

using index_codec::EntryValue;
using index_codec::KeyKind;

// Digests that one call handles at a time: bounds what a call of any size pins in memory.
constexpr std::size_t kBatchCount = 1024;

// Of an entry in a batch of writes, with a repository's name and a locator of usual lengths.
constexpr std::size_t kUsualWriteBytes = 96;

// Read-modify-writes of digests that begin with different bits do not wait for each other. A stripe
// is also a part of what is known of their last writes.
constexpr std::size_t kStripeCount = LastWrites::kPartCount;

std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

class RocksDbIndex final : public EmbeddedIndex {
 public:
  RocksDbIndex(std::string path, std::unique_ptr<rocksdb::DB> database,
               const RocksDbIndexOptions& options)
      : path_(std::move(path)), options_(options), database_(std::move(database)) {}
  ~RocksDbIndex() override { MarkDurable().IgnoreError(); }

  // Looks at the epochs of all repositories, and how far it was durable. Once, before any other
  // call.
  absl::Status Load();

  absl::Status MarkDurable() override;
  std::uint64_t lost_write_count() const override { return lost_write_count_; }
  absl::StatusOr<IndexTotals> CountAll() override;

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
  std::string_view backend_name() const override { return "rocksdb"; }
  bool answers_at_once() const override { return true; }

 private:
  // Whether what is held goes.
  using Goes = std::function<bool(const EntryValue& held, const IndexEntry& entry)>;
  using Stripes = std::array<std::unique_lock<std::mutex>, kStripeCount>;

  // Of a repository; read each time, so that names cost no memory. What is read is durable: a write
  // that waits for the disk is not seen before.
  absl::StatusOr<std::uint64_t> EpochOf(const RepositoryId& repository);
  // Holds the stripes of the entries while it lives; taken in order, so that nobody waits in a
  // circle.
  Stripes Lock(std::span<const IndexEntry* const> entries);
  absl::Status CommitBatch(const RepositoryId& repository, std::string_view prefix,
                           std::uint64_t session_epoch, std::span<const IndexEntry* const> sorted,
                           bool replace);
  absl::StatusOr<std::uint64_t> ForgetBatch(const RepositoryId& repository, std::string_view prefix,
                                            std::span<const IndexEntry* const> sorted,
                                            const Goes& goes);
  // Forgets them a batch at a time, then waits for the disk.
  absl::StatusOr<ForgetResult> ForgetAll(const RepositoryId& repository,
                                         std::span<const IndexEntry> entries, const Goes& goes);
  // Gives those of `sorted` with a later epoch that one; how many they were.
  absl::StatusOr<std::uint64_t> LowerBatch(const RepositoryId& repository, std::string_view prefix,
                                           std::span<const IndexEntry* const> sorted,
                                           std::uint64_t epoch);
  // Refuses commits from now on, durably, and believes nothing; of one that is dropped it is gone
  // that it was created.
  absl::Status Close(const RepositoryId& repository, bool is_dropped);
  // Writes the epoch with the batch, durably. The fence is held alone.
  absl::Status WriteEpoch(const RepositoryId& repository, std::uint64_t epoch,
                          rocksdb::WriteBatch& writes);
  absl::StatusOr<std::uint64_t> ReadNumber(KeyKind kind, const RepositoryId& repository);
  // Up to `limit` entries in digest order, those behind `after`.
  using Visitor = std::function<void(const Digest& digest, const EntryValue& value)>;
  absl::Status Visit(const RepositoryId& repository, const std::optional<Digest>& after,
                     std::size_t limit, const Visitor& visitor);
  // Writes the batch, and with it that there are `added_count` more entries (modulo 2^64).
  absl::Status Write(const RepositoryId& repository, rocksdb::WriteBatch& batch,
                     std::uint64_t added_count);

  absl::Status WriteDurably(rocksdb::WriteBatch& writes);
  // The highest one of all that are not closed.
  absl::StatusOr<std::uint64_t> ReadEpochs();
  // Waits for the disk, for all that was written.
  absl::Status Sync();

  const std::string path_;
  const RocksDbIndexOptions options_;
  const std::unique_ptr<rocksdb::DB> database_;
  std::uint64_t lost_write_count_ = 0;
  std::mutex mark_mutex_;
  std::uint64_t marked_sequence_ = 0;
  std::array<std::mutex, kStripeCount> stripes_;
  // Of entries, where a commit has made some that were not there. Nothing else does: whatever
  // forgets, drops or resets removes entries, or changes those that are there.
  LastWrites last_writes_;
  EpochFence fence_;
};

absl::Status RocksDbIndex::Load() {
  KERF_RETURN_IF_ERROR(ReadEpochs().status());
  const std::uint64_t sequence = database_->GetLatestSequenceNumber();
  KERF_ASSIGN_OR_RETURN(marked_sequence_, ReadSequenceMark(path_));
  if (sequence < marked_sequence_) lost_write_count_ = marked_sequence_ - sequence;
  // What is lost is told once.
  return lost_write_count_ == 0 ? absl::OkStatus() : MarkDurable();
}

// Not by SyncWAL: behind a write that has failed, as on a full disk, that ends the process. A write
// is refused then, and comes behind all others.
absl::Status RocksDbIndex::Sync() {
  rocksdb::WriteBatch nothing;
  KERF_RETURN_IF_ERROR(FromRocksDb(nothing.PutLogData("sync"), "syncing the index"));
  rocksdb::WriteOptions write;
  write.sync = true;
  return FromRocksDb(database_->Write(write, &nothing), "syncing the index");
}

absl::Status RocksDbIndex::MarkDurable() {
  const std::lock_guard lock(mark_mutex_);
  // Before the disk is waited for: what comes meanwhile may not be on it.
  const std::uint64_t sequence = database_->GetLatestSequenceNumber();
  if (sequence == marked_sequence_) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(Sync());
  KERF_RETURN_IF_ERROR(WriteSequenceMark(path_, sequence));
  marked_sequence_ = sequence;
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> RocksDbIndex::ReadEpochs() {
  std::uint64_t highest = 0;
  const std::string prefix = index_codec::KindPrefix(KeyKind::kEpoch);
  const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    KERF_RETURN_IF_ERROR(
        index_codec::ParseRepositoryKey(KeyKind::kEpoch, ToView(at->key())).status());
    KERF_ASSIGN_OR_RETURN(const std::uint64_t epoch, index_codec::ParseNumber(ToView(at->value())));
    if (epoch != index_rules::kClosedEpoch) highest = std::max(highest, epoch);
  }
  KERF_RETURN_IF_ERROR(FromRocksDb(at->status(), "reading the index's epochs"));
  return highest;
}

absl::StatusOr<std::uint64_t> RocksDbIndex::EpochOf(const RepositoryId& repository) {
  return ReadNumber(KeyKind::kEpoch, repository);
}

Task<absl::Status> RocksDbIndex::Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                                        std::span<const Digest> digests,
                                        std::span<LookupResult> results) {
  KERF_RETURN_IF_ERROR(ValidateLookup(repository, digests, results.size()));
  // Before the entries: an entry that is read after the epoch was raised was not forgotten by then.
  KERF_ASSIGN_OR_RETURN(const std::uint64_t repository_epoch, EpochOf(repository));
  KERF_RETURN_IF_ERROR(index_rules::CheckNotAhead(session_epoch, repository_epoch));
  const std::string prefix = index_codec::RepositoryKey(KeyKind::kEntry, repository);
  for (std::size_t begin = 0; begin < digests.size(); begin += kBatchCount) {
    const auto part = digests.subspan(begin, std::min(kBatchCount, digests.size() - begin));
    EntryBatch batch(repository, prefix, part.size());
    const std::vector<std::size_t> order = InDigestOrder(part);
    for (const std::size_t position : order) batch.Add(part[position]);
    // Before the entries are read.
    const std::uint64_t now = last_writes_.Now();
    KERF_RETURN_IF_ERROR(batch.Read(*database_));
    for (std::size_t index = 0; index < part.size(); ++index) {
      KERF_ASSIGN_OR_RETURN(const std::optional<EntryValue> value, batch.value(index));
      LookupResult& result = results[begin + order[index]];
      result = LookupResult{};
      result.repository_epoch = index_rules::EpochToTell(repository_epoch);
      if (!value) {
        result.absent_at = now;
        continue;
      }
      result.verdict = index_rules::VerdictOf(value->epoch, repository_epoch, session_epoch);
      result.length_bytes = value->length_bytes;
      result.locator = value->locator;
    }
  }
  return absl::OkStatus();
}

RocksDbIndex::Stripes RocksDbIndex::Lock(std::span<const IndexEntry* const> entries) {
  std::bitset<kStripeCount> wanted;
  for (const IndexEntry* entry : entries) wanted.set(LastWrites::PartOf(entry->digest));
  Stripes held;
  for (std::size_t index = 0; index < kStripeCount; ++index) {
    if (wanted[index]) held[index] = std::unique_lock(stripes_[index]);
  }
  return held;
}

absl::Status RocksDbIndex::Write(const RepositoryId& repository, rocksdb::WriteBatch& batch,
                                 std::uint64_t added_count) {
  if (batch.Count() == 0) return absl::OkStatus();
  if (added_count != 0) {
    KERF_RETURN_IF_ERROR(
        FromRocksDb(batch.Merge(index_codec::RepositoryKey(KeyKind::kEntryCount, repository),
                                index_codec::EncodeNumber(added_count)),
                    "writing the index"));
  }
  return FromRocksDb(database_->Write(rocksdb::WriteOptions(), &batch), "writing the index");
}

absl::Status RocksDbIndex::CommitBatch(const RepositoryId& repository, std::string_view prefix,
                                       std::uint64_t session_epoch,
                                       std::span<const IndexEntry* const> sorted, bool replace) {
  EntryBatch batch(repository, prefix, sorted.size());
  for (const IndexEntry* entry : sorted) batch.Add(entry->digest);
  const Stripes held = Lock(sorted);
  KERF_ASSIGN_OR_RETURN(const std::uint64_t repository_epoch, EpochOf(repository));
  // What the caller's lookup has not found, and nobody has committed since, is not there.
  for (std::size_t index = 0; index < sorted.size(); ++index) {
    if (last_writes_.IsUnwrittenSince(sorted[index]->digest, sorted[index]->absent_at)) {
      batch.SetAbsent(index);
    }
  }
  KERF_RETURN_IF_ERROR(batch.Read(*database_));
  rocksdb::WriteBatch writes(sorted.size() * kUsualWriteBytes);
  std::string encoded;
  std::uint64_t added_count = 0;
  std::optional<EntryValue> current;
  for (std::size_t index = 0; index < sorted.size(); ++index) {
    const IndexEntry& entry = *sorted[index];
    // An earlier entry of this call for the same digest counts as committed before.
    if (index == 0 || entry.digest != sorted[index - 1]->digest) {
      KERF_ASSIGN_OR_RETURN(current, batch.value(index));
      if (!current) ++added_count;
    }
    const std::optional<std::uint64_t> held_epoch =
        current ? std::optional(current->epoch) : std::nullopt;
    const std::optional<std::uint64_t> epoch =
        index_rules::EpochToWrite(held_epoch, repository_epoch, session_epoch, replace);
    if (!epoch) continue;
    current = EntryValue{*epoch, entry.length_bytes, entry.locator};
    encoded.clear();
    index_codec::AppendEntry(*current, &encoded);
    KERF_RETURN_IF_ERROR(FromRocksDb(writes.Put(batch.key(index), encoded), "writing the index"));
  }
  absl::Status status = Write(repository, writes, added_count);
  // Still with the stripes, so that whoever has them next knows of it.
  if (added_count > 0) last_writes_.Note(sorted);
  // That nothing of it is there, or ever will be, is not relied on.
  if (!status.ok()) last_writes_.DisbelieveAll();
  return status;
}

Task<absl::Status> RocksDbIndex::Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                                        std::span<const IndexEntry> entries, bool replace) {
  KERF_RETURN_IF_ERROR(ValidateCommit(repository, entries));
  if (entries.empty()) return absl::OkStatus();
  const auto inside = fence_.EnterCommit();
  KERF_ASSIGN_OR_RETURN(const std::uint64_t repository_epoch, EpochOf(repository));
  KERF_RETURN_IF_ERROR(CheckSessionEpoch(session_epoch, repository_epoch));
  const std::string prefix = index_codec::RepositoryKey(KeyKind::kEntry, repository);
  const std::vector<const IndexEntry*> sorted = InDigestOrder(entries);
  for (std::size_t begin = 0; begin < sorted.size(); begin += kBatchCount) {
    const auto part =
        std::span(sorted).subspan(begin, std::min(kBatchCount, sorted.size() - begin));
    KERF_RETURN_IF_ERROR(CommitBatch(repository, prefix, session_epoch, part, replace));
  }
  if (!options_.sync_commits) return absl::OkStatus();
  return Sync();
}

absl::StatusOr<std::uint64_t> RocksDbIndex::ForgetBatch(const RepositoryId& repository,
                                                        std::string_view prefix,
                                                        std::span<const IndexEntry* const> sorted,
                                                        const Goes& goes) {
  EntryBatch batch(repository, prefix, sorted.size());
  for (const IndexEntry* entry : sorted) batch.Add(entry->digest);
  const Stripes held = Lock(sorted);
  KERF_RETURN_IF_ERROR(batch.Read(*database_));
  rocksdb::WriteBatch writes;
  std::uint64_t forgotten_count = 0;
  std::optional<EntryValue> current;
  for (std::size_t index = 0; index < sorted.size(); ++index) {
    const IndexEntry& entry = *sorted[index];
    if (index == 0 || entry.digest != sorted[index - 1]->digest) {
      KERF_ASSIGN_OR_RETURN(current, batch.value(index));
    }
    if (!current || !goes(*current, entry)) continue;
    current.reset();
    ++forgotten_count;
    KERF_RETURN_IF_ERROR(FromRocksDb(writes.Delete(batch.key(index)), "writing the index"));
  }
  if (forgotten_count > 0) {
    KERF_RETURN_IF_ERROR(
        FromRocksDb(writes.Merge(index_codec::RepositoryKey(KeyKind::kRemovedCount, repository),
                                 index_codec::EncodeNumber(forgotten_count)),
                    "writing the index"));
  }
  KERF_RETURN_IF_ERROR(Write(repository, writes, -forgotten_count));
  return forgotten_count;
}

absl::StatusOr<std::uint64_t> RocksDbIndex::ReadNumber(KeyKind kind,
                                                       const RepositoryId& repository) {
  std::string value;
  const rocksdb::Status read =
      database_->Get(rocksdb::ReadOptions(), index_codec::RepositoryKey(kind, repository), &value);
  if (read.IsNotFound()) return 0;
  KERF_RETURN_IF_ERROR(FromRocksDb(read, "reading the index"));
  return index_codec::ParseNumber(value);
}

absl::StatusOr<ForgetResult> RocksDbIndex::ForgetAll(const RepositoryId& repository,
                                                     std::span<const IndexEntry> entries,
                                                     const Goes& goes) {
  ForgetResult result;
  KERF_ASSIGN_OR_RETURN(result.epoch, EpochOf(repository));
  const std::string prefix = index_codec::RepositoryKey(KeyKind::kEntry, repository);
  const std::vector<const IndexEntry*> sorted = InDigestOrder(entries);
  for (std::size_t begin = 0; begin < sorted.size(); begin += kBatchCount) {
    const auto part =
        std::span(sorted).subspan(begin, std::min(kBatchCount, sorted.size() - begin));
    KERF_ASSIGN_OR_RETURN(const std::uint64_t count, ForgetBatch(repository, prefix, part, goes));
    result.forgotten_count += count;
  }
  // Even if nothing was removed: another call may have removed it just now and not synced it yet.
  if (!entries.empty()) {
    KERF_RETURN_IF_ERROR(Sync());
  }
  KERF_ASSIGN_OR_RETURN(result.removed_count, ReadNumber(KeyKind::kRemovedCount, repository));
  return result;
}

Task<absl::StatusOr<ForgetResult>> RocksDbIndex::Forget(const RepositoryId& repository,
                                                        std::span<const IndexEntry> entries) {
  KERF_RETURN_IF_ERROR(ValidateForget(repository, entries));
  const auto inside = fence_.EnterCommit();
  return ForgetAll(repository, entries, [](const EntryValue& held, const IndexEntry& entry) {
    return index_rules::IsForgotten(held.locator, entry.locator);
  });
}

Task<absl::StatusOr<ForgetOlderResult>> RocksDbIndex::ForgetOlder(
    const RepositoryId& repository, std::uint64_t epoch, const std::optional<Digest>& after,
    std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateStep(repository, after, limit));
  // Before the entries are read: none of an earlier session comes once the epoch is raised.
  const auto inside = fence_.EnterCommit();
  KERF_ASSIGN_OR_RETURN(const std::uint64_t repository_epoch, EpochOf(repository));
  KERF_RETURN_IF_ERROR(index_rules::CheckNotAhead(epoch, repository_epoch));
  std::vector<IndexEntry> older;
  ForgetOlderResult result;
  std::size_t seen_count = 0;
  KERF_RETURN_IF_ERROR(
      Visit(repository, after, limit, [&](const Digest& digest, const EntryValue& value) {
        ++seen_count;
        result.last = digest;
        if (index_rules::IsOlder(value.epoch, epoch)) older.push_back({digest, 0, ""});
      }));
  if (seen_count < limit) result.last.reset();
  // Whoever has committed one of them meanwhile keeps it.
  KERF_ASSIGN_OR_RETURN(result.forgotten,
                        ForgetAll(repository, older, [epoch](const EntryValue& held, const auto&) {
                          return index_rules::IsOlder(held.epoch, epoch);
                        }));
  return result;
}

Task<absl::StatusOr<std::uint64_t>> RocksDbIndex::AdvanceEpoch(const RepositoryId& repository,
                                                               std::uint64_t epoch,
                                                               std::uint64_t min_before) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  const auto alone = fence_.EnterAdvance();
  KERF_ASSIGN_OR_RETURN(const std::uint64_t before, EpochOf(repository));
  if (before < min_before) return before;
  KERF_RETURN_IF_ERROR(index_rules::CheckAdvance(before, epoch));
  if (epoch == before) return before;
  rocksdb::WriteBatch writes;
  KERF_RETURN_IF_ERROR(
      FromRocksDb(writes.Delete(index_codec::RepositoryKey(KeyKind::kRemovedCount, repository)),
                  "writing the index"));
  KERF_RETURN_IF_ERROR(WriteEpoch(repository, epoch, writes));
  return before;
}

absl::Status RocksDbIndex::WriteEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                      rocksdb::WriteBatch& writes) {
  const std::string key = index_codec::RepositoryKey(KeyKind::kEpoch, repository);
  KERF_RETURN_IF_ERROR(
      FromRocksDb(writes.Put(key, index_codec::EncodeNumber(epoch)), "writing the index"));
  return WriteDurably(writes);
}

absl::Status RocksDbIndex::WriteDurably(rocksdb::WriteBatch& writes) {
  rocksdb::WriteOptions write;
  write.sync = true;
  return FromRocksDb(database_->Write(write, &writes), "writing the index");
}

absl::Status RocksDbIndex::Visit(const RepositoryId& repository, const std::optional<Digest>& after,
                                 std::size_t limit, const Visitor& visitor) {
  const std::string prefix = index_codec::RepositoryKey(KeyKind::kEntry, repository);
  const std::string end = index_codec::EndOfPrefix(prefix);
  const rocksdb::Slice end_slice(end);
  rocksdb::ReadOptions read;
  read.iterate_upper_bound = &end_slice;
  read.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(read));
  std::string from = prefix;
  if (after.has_value()) from.append(index_codec::DigestKey(repository, *after));
  at->Seek(from);
  if (after.has_value() && at->Valid() && at->key() == rocksdb::Slice(from)) at->Next();
  for (std::size_t count = 0; at->Valid() && count < limit; at->Next(), ++count) {
    KERF_ASSIGN_OR_RETURN(
        const Digest digest,
        index_codec::ParseDigestKey(repository, ToView(at->key()).substr(prefix.size())));
    KERF_ASSIGN_OR_RETURN(const EntryValue value, index_codec::ParseEntry(ToView(at->value())));
    visitor(digest, value);
  }
  return FromRocksDb(at->status(), "scanning the index");
}

Task<absl::StatusOr<std::vector<IndexEntry>>> RocksDbIndex::Scan(const RepositoryId& repository,
                                                                 const std::optional<Digest>& after,
                                                                 std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateScan(repository, after));
  std::vector<IndexEntry> page;
  KERF_RETURN_IF_ERROR(
      Visit(repository, after, limit, [&](const Digest& digest, const EntryValue& value) {
        page.push_back({digest, value.length_bytes, std::string(value.locator)});
      }));
  return page;
}

Task<absl::StatusOr<IndexStats>> RocksDbIndex::Stats(const RepositoryId& repository) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  IndexStats stats;
  KERF_ASSIGN_OR_RETURN(stats.epoch, EpochOf(repository));
  KERF_ASSIGN_OR_RETURN(stats.entry_count, ReadNumber(KeyKind::kEntryCount, repository));
  return stats;
}

Task<absl::StatusOr<bool>> RocksDbIndex::Create(const RepositoryId& repository) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  // Alone: two at once would both call it new.
  const auto alone = fence_.EnterAdvance();
  KERF_ASSIGN_OR_RETURN(const bool is_created, IsRepositoryCreated(*database_, repository));
  if (is_created) return false;
  rocksdb::WriteBatch writes;
  KERF_RETURN_IF_ERROR(PutCreated(repository, writes));
  KERF_RETURN_IF_ERROR(WriteDurably(writes));
  return true;
}

Task<absl::StatusOr<bool>> RocksDbIndex::IsCreated(const RepositoryId& repository) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  return IsRepositoryCreated(*database_, repository);
}

Task<absl::StatusOr<bool>> RocksDbIndex::IsThere(const RepositoryId& repository) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  return IsRepositoryKnown(*database_, repository);
}

Task<absl::StatusOr<std::vector<ListedRepository>>> RocksDbIndex::List(
    const std::optional<RepositoryId>& after, std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateList(after));
  return ListRepositories(*database_, after, limit);
}

absl::Status RocksDbIndex::Close(const RepositoryId& repository, bool is_dropped) {
  const auto alone = fence_.EnterAdvance();
  rocksdb::WriteBatch writes;
  if (is_dropped) KERF_RETURN_IF_ERROR(DeleteCreated(repository, writes));
  return WriteEpoch(repository, index_rules::kClosedEpoch, writes);
}

Task<absl::StatusOr<StepResult>> RocksDbIndex::Drop(const RepositoryId& repository,
                                                    const std::optional<Digest>& after,
                                                    std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateStep(repository, after, limit));
  StepResult result;
  KERF_ASSIGN_OR_RETURN(const bool is_known, IsRepositoryKnown(*database_, repository));
  if (!is_known) return result;
  KERF_RETURN_IF_ERROR(Close(repository, /*is_dropped=*/true));
  {
    const auto inside = fence_.EnterCommit();
    std::vector<IndexEntry> page;
    KERF_RETURN_IF_ERROR(Visit(
        repository, after, limit,
        [&page](const Digest& digest, const EntryValue&) { page.push_back({digest, 0, ""}); }));
    if (page.size() == limit) result.last = page.back().digest;
    KERF_ASSIGN_OR_RETURN(
        const ForgetResult forgotten,
        ForgetAll(repository, page, [](const auto& /*held*/, const auto&) { return true; }));
    result.changed_count = forgotten.forgotten_count;
  }
  if (result.last.has_value()) return result;
  const auto alone = fence_.EnterAdvance();
  bool is_left = false;
  KERF_RETURN_IF_ERROR(Visit(repository, std::nullopt, 1,
                             [&](const Digest&, const EntryValue&) { is_left = true; }));
  if (is_left) return LeftOut();
  rocksdb::WriteBatch writes;
  KERF_RETURN_IF_ERROR(DeleteRepository(repository, writes));
  KERF_RETURN_IF_ERROR(WriteDurably(writes));
  return result;
}

absl::StatusOr<std::uint64_t> RocksDbIndex::LowerBatch(const RepositoryId& repository,
                                                       std::string_view prefix,
                                                       std::span<const IndexEntry* const> sorted,
                                                       std::uint64_t epoch) {
  EntryBatch batch(repository, prefix, sorted.size());
  for (const IndexEntry* entry : sorted) batch.Add(entry->digest);
  // One that is forgotten meanwhile does not come back.
  const Stripes held = Lock(sorted);
  KERF_RETURN_IF_ERROR(batch.Read(*database_));
  rocksdb::WriteBatch writes;
  std::uint64_t lowered_count = 0;
  for (std::size_t index = 0; index < sorted.size(); ++index) {
    KERF_ASSIGN_OR_RETURN(std::optional<EntryValue> value, batch.value(index));
    if (!value || index_rules::EpochAfterReset(value->epoch, epoch) == value->epoch) continue;
    value->epoch = epoch;
    ++lowered_count;
    KERF_RETURN_IF_ERROR(FromRocksDb(writes.Put(batch.key(index), index_codec::EncodeEntry(*value)),
                                     "writing the index"));
  }
  KERF_RETURN_IF_ERROR(Write(repository, writes, 0));
  return lowered_count;
}

Task<absl::StatusOr<StepResult>> RocksDbIndex::ResetEpoch(const RepositoryId& repository,
                                                          std::uint64_t epoch,
                                                          const std::optional<Digest>& after,
                                                          std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateStep(repository, after, limit));
  KERF_RETURN_IF_ERROR(index_rules::CheckReset(epoch));
  if (!after.has_value()) KERF_RETURN_IF_ERROR(Close(repository, /*is_dropped=*/false));
  StepResult result;
  {
    const auto inside = fence_.EnterCommit();
    std::vector<IndexEntry> later;
    std::size_t seen_count = 0;
    KERF_RETURN_IF_ERROR(
        Visit(repository, after, limit, [&](const Digest& digest, const EntryValue& value) {
          ++seen_count;
          result.last = digest;
          if (value.epoch > epoch) later.push_back({digest, 0, ""});
        }));
    if (seen_count < limit) result.last.reset();
    const std::string prefix = index_codec::RepositoryKey(KeyKind::kEntry, repository);
    const std::vector<const IndexEntry*> sorted = InDigestOrder(later);
    for (std::size_t begin = 0; begin < sorted.size(); begin += kBatchCount) {
      const auto part =
          std::span(sorted).subspan(begin, std::min(kBatchCount, sorted.size() - begin));
      KERF_ASSIGN_OR_RETURN(const std::uint64_t count, LowerBatch(repository, prefix, part, epoch));
      result.changed_count += count;
    }
    KERF_RETURN_IF_ERROR(Sync());
  }
  if (result.last.has_value()) return result;
  const auto alone = fence_.EnterAdvance();
  rocksdb::WriteBatch nothing_else;
  KERF_RETURN_IF_ERROR(WriteEpoch(repository, epoch, nothing_else));
  return result;
}

absl::StatusOr<IndexTotals> RocksDbIndex::CountAll() {
  IndexTotals totals;
  KERF_ASSIGN_OR_RETURN(totals.epoch, ReadEpochs());
  const std::string prefix = index_codec::KindPrefix(KeyKind::kEntryCount);
  const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    KERF_ASSIGN_OR_RETURN(const std::uint64_t count, index_codec::ParseNumber(ToView(at->value())));
    totals.repository_count += count > 0 ? 1 : 0;
    totals.entry_count += count;
  }
  KERF_RETURN_IF_ERROR(FromRocksDb(at->status(), "counting the index"));
  return totals;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedIndex>> OpenRocksDbIndex(
    const std::string& path, const RocksDbIndexOptions& options) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<rocksdb::DB> database, OpenRocksDb(path, options));
  auto index = std::make_unique<RocksDbIndex>(path, std::move(database), options);
  KERF_RETURN_IF_ERROR(index->Load());
  return index;
}

}  // namespace kerf
