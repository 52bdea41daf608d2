// Segments in a RocksDB database of their own, beside that of an embedded index: it may be damaged,
// deleted or full without harm to the index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/hints/segment_store.h"
#include "server/index/disk_room.h"

namespace rocksdb {
class Env;
}

namespace kerf {

struct RocksDbSegmentOptions {
  // On disk, give or take a memtable: what was written first goes first. At most kMaxFiles times
  // memtable_bytes.
  std::uint64_t capacity_bytes = std::uint64_t{1} << 30;
  // Of a file; lost when the process does not end in order. Less if the capacity is small.
  std::size_t memtable_bytes = std::size_t{16} << 20;
  // Blocks, indexes and filters in memory.
  std::size_t block_cache_bytes = std::size_t{16} << 20;
  // With less room on the disk, behind what is still in memory, nothing is put: hints are what an
  // index beside them can best do without.
  std::uint64_t min_free_bytes = kMinFreeDiskBytes;
  // Null: the machine's file system. Tests give another one; it outlives the store.
  rocksdb::Env* env = nullptr;

  // All of them are open, and each may be looked into.
  static constexpr std::uint64_t kMaxFiles = 256;
};

// `path` is a folder of its own, which is made. Every call is answered before it returns; Put with
// ResourceExhausted where the disk is too full for hints. A damaged database is begun anew.
// FailedPrecondition if there is something in the folder that is not of this; Unavailable if it is
// open already; else what the file system says.
absl::StatusOr<std::unique_ptr<SegmentStore>> OpenRocksDbSegmentStore(
    const std::string& path, const RocksDbSegmentOptions& options);

}  // namespace kerf
