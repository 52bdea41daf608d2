// How the RocksDB leaf opens its database and what RocksDB's errors mean.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "rocksdb/status.h"
#include "server/index/rocksdb_index.h"

namespace kerf {

// The one place where a RocksDB error becomes a Status; `doing` says at what. OK stays OK. NotFound
// is for the caller to handle first where it is an answer.
absl::Status FromRocksDb(const rocksdb::Status& status, std::string_view doing);

// Where a database is to write its own log: into kerfd's, at debug level. A file of its own, which
// is what RocksDB does unless told otherwise, ends the process: where a line of it cannot be
// written, as on a full disk, Debian's RocksDB asserts at the next one.
std::shared_ptr<rocksdb::Logger> RocksDbLog();

// An open database of kerf's format, tuned for point lookups that mostly miss. Counters
// (index_codec::EncodeNumber) are added up by Merge. Errors: OpenRocksDbIndex.
absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenRocksDb(const std::string& path,
                                                         const RocksDbIndexOptions& options);

}  // namespace kerf
