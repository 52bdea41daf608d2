// Some digests and what a database holds of them, read in one go.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/fingerprint/digest.h"
#include "rocksdb/db.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"
#include "server/index/codec.h"
#include "server/index/index.h"

namespace kerf {

// Positions in the order of the digests there; those of one digest in their own order. RocksDB
// would sort what it is asked for itself, at three times the price.
std::vector<std::size_t> InDigestOrder(std::span<const Digest> digests);
// The entries there.
std::vector<const IndexEntry*> InDigestOrder(std::span<const IndexEntry> entries);

// Add, in digest order; then SetAbsent; then Read, once; then what was read.
class EntryBatch {
 public:
  // `repository` and `prefix`, which begins the keys of its entries, outlive it.
  EntryBatch(const RepositoryId& repository, std::string_view prefix, std::size_t count);

  void Add(const Digest& digest);
  // The index-th digest is known to have no entry: nobody looks for it.
  void SetAbsent(std::size_t index);
  absl::Status Read(rocksdb::DB& database);

  // The entry of the index-th digest; nothing if it has none. DataLoss. The view lasts as long as
  // the batch.
  absl::StatusOr<std::optional<index_codec::EntryValue>> value(std::size_t index) const;
  rocksdb::Slice key(std::size_t index) const {
    return {keys_.data() + index * key_bytes_, key_bytes_};
  }

 private:
  const RepositoryId& repository_;
  const std::string_view prefix_;
  const std::size_t key_bytes_;
  std::size_t count_ = 0;
  // All of one length, one behind the other.
  std::string keys_;
  // Of each digest, once one is absent.
  std::vector<bool> is_absent_;
  std::size_t absent_count_ = 0;
  // Of those that are looked for, one behind the other.
  std::vector<rocksdb::Slice> slices_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<rocksdb::Status> statuses_;
  // Where those of each digest stand there, once one is absent.
  std::vector<std::size_t> places_;
};

}  // namespace kerf
