#include "server/index/rocksdb_repositories.h"

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/index/codec.h"
#include "server/index/rocksdb_store.h"

namespace kerf {
namespace {

using index_codec::KeyKind;

// All that tells of a repository.
constexpr KeyKind kKinds[] = {KeyKind::kEpoch, KeyKind::kEntryCount, KeyKind::kRemovedCount,
                              KeyKind::kCreated};

std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

absl::StatusOr<bool> Has(rocksdb::DB& database, const std::string& key) {
  rocksdb::PinnableSlice value;
  const rocksdb::Status read =
      database.Get(rocksdb::ReadOptions(), database.DefaultColumnFamily(), key, &value);
  if (read.IsNotFound()) return false;
  KERF_RETURN_IF_ERROR(FromRocksDb(read, "reading the index"));
  return true;
}

// The first `limit` of that kind behind `after`.
absl::Status AddRepositories(rocksdb::DB& database, KeyKind kind,
                             const std::optional<RepositoryId>& after, std::size_t limit,
                             std::set<RepositoryId, RepositoryOrder>& found) {
  const std::string prefix = index_codec::KindPrefix(kind);
  const std::string from =
      after.has_value() ? index_codec::RepositoryKey(kind, *after) : std::string(prefix);
  const std::unique_ptr<rocksdb::Iterator> at(database.NewIterator(rocksdb::ReadOptions()));
  at->Seek(from);
  if (after.has_value() && at->Valid() && at->key() == rocksdb::Slice(from)) at->Next();
  for (std::size_t count = 0; count < limit && at->Valid() && at->key().starts_with(prefix);
       at->Next(), ++count) {
    KERF_ASSIGN_OR_RETURN(RepositoryId repository,
                          index_codec::ParseRepositoryKey(kind, ToView(at->key())));
    found.insert(std::move(repository));
  }
  return FromRocksDb(at->status(), "listing the index's repositories");
}

absl::Status Delete(KeyKind kind, const RepositoryId& repository, rocksdb::WriteBatch& writes) {
  return FromRocksDb(writes.Delete(index_codec::RepositoryKey(kind, repository)),
                     "writing the index");
}

}  // namespace

absl::StatusOr<bool> IsRepositoryCreated(rocksdb::DB& database, const RepositoryId& repository) {
  return Has(database, index_codec::RepositoryKey(KeyKind::kCreated, repository));
}

absl::StatusOr<bool> IsRepositoryKnown(rocksdb::DB& database, const RepositoryId& repository) {
  for (const KeyKind kind : kKinds) {
    KERF_ASSIGN_OR_RETURN(const bool is_known,
                          Has(database, index_codec::RepositoryKey(kind, repository)));
    if (is_known) return true;
  }
  return false;
}

absl::StatusOr<std::vector<ListedRepository>> ListRepositories(
    rocksdb::DB& database, const std::optional<RepositoryId>& after, std::size_t limit) {
  std::set<RepositoryId, RepositoryOrder> found;
  for (const KeyKind kind : kKinds) {
    KERF_RETURN_IF_ERROR(AddRepositories(database, kind, after, limit, found));
  }
  std::vector<ListedRepository> page;
  for (const RepositoryId& repository : found) {
    if (page.size() == limit) break;
    KERF_ASSIGN_OR_RETURN(const bool is_created, IsRepositoryCreated(database, repository));
    page.push_back({repository, is_created});
  }
  return page;
}

absl::Status PutCreated(const RepositoryId& repository, rocksdb::WriteBatch& writes) {
  return FromRocksDb(writes.Put(index_codec::RepositoryKey(KeyKind::kCreated, repository),
                                index_codec::EncodeNumber(1)),
                     "writing the index");
}

absl::Status DeleteCreated(const RepositoryId& repository, rocksdb::WriteBatch& writes) {
  return Delete(KeyKind::kCreated, repository, writes);
}

absl::Status DeleteRepository(const RepositoryId& repository, rocksdb::WriteBatch& writes) {
  for (const KeyKind kind : kKinds) KERF_RETURN_IF_ERROR(Delete(kind, repository, writes));
  return absl::OkStatus();
}

}  // namespace kerf
