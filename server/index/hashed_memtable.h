// A memtable of RocksDB that does not sort: a table of hashes, which is put in order only when
// somebody goes through it, as RocksDB does once, to write it into a table file. Why:
// docs/adr/0025-writes-to-the-embedded-index.md.
#pragma once

#include <cstddef>
#include <memory>

#include "rocksdb/memtablerep.h"

namespace kerf {

// For a database with RocksDB's default order of keys (by their bytes), without
// allow_concurrent_memtable_write: one thread writes at a time, in the order of the sequence
// numbers, and any number read meanwhile without a lock. Merges, snapshots and iterators work as
// ever. The first iterator over a memtable sorts all that it has; a later one puts what was written
// since in its place, and copies eight bytes for each entry. It shows what was there when it was
// first used: Iterator::Refresh shows no more, as with RocksDB's vector.
//
// Nothing of it is in the files: a database may be opened with and without it by turns.
//
// `bucket_count` is of each memtable: about as many as it will have keys. Hashes are of a secret
// (base/seeded_hash.h), so that nobody can choose keys that meet in one bucket.
std::shared_ptr<rocksdb::MemTableRepFactory> NewHashedMemtables(std::size_t bucket_count);

}  // namespace kerf
