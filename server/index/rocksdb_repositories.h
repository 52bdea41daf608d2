// Which repositories an embedded index has: the keys that are not about single entries.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"
#include "server/index/index.h"

namespace kerf {

// As Index::IsCreated and Index::List.
absl::StatusOr<bool> IsRepositoryCreated(rocksdb::DB& database, const RepositoryId& repository);
absl::StatusOr<std::vector<ListedRepository>> ListRepositories(
    rocksdb::DB& database, const std::optional<RepositoryId>& after, std::size_t limit);

// Whether anything is known of it, entries aside.
absl::StatusOr<bool> IsRepositoryKnown(rocksdb::DB& database, const RepositoryId& repository);

// Adds to `writes` that it is created; that it is not; that nothing is known of it any more.
absl::Status PutCreated(const RepositoryId& repository, rocksdb::WriteBatch& writes);
absl::Status DeleteCreated(const RepositoryId& repository, rocksdb::WriteBatch& writes);
absl::Status DeleteRepository(const RepositoryId& repository, rocksdb::WriteBatch& writes);

}  // namespace kerf
