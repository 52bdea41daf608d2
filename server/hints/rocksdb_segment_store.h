// Segments in a RocksDB database of their own, beside that of an embedded index: it may be damaged,
// deleted or full without harm to the index.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  // Once there was less, something is put from an eighth more on, so that it is not on and off in
  // turns.
  std::uint64_t min_free_bytes = kMinFreeDiskBytes;
  // A database that cannot be opened, or not be written any more, is opened anew with what is put
  // next, but not before this; each time that it does not last it waits twice as long, up to
  // kLongestWait.
  std::chrono::milliseconds first_wait{10'000};
  // Also one that could not be opened in the beginning.
  bool opens_later = false;
  // Tests give another one.
  std::function<absl::StatusOr<DiskState>(const std::string& folder)> read_disk = ReadDisk;
  // Null: the machine's file system. Tests give another one; it outlives the store.
  rocksdb::Env* env = nullptr;

  // All of them are open, and each may be looked into.
  static constexpr std::uint64_t kMaxFiles = 256;
  static constexpr std::chrono::minutes kLongestWait{10};
};

// `path` is a folder of its own, which is made. Every call is answered before it returns; Put with
// ResourceExhausted where the disk is too full for hints, or with what was wrong last while it
// waits to be opened anew; what had not reached the disk by then is lost. A damaged database is
// begun anew. FailedPrecondition if there is something in the folder that is not of this;
// Unavailable if it is open already; else what the file system says. With opens_later only the
// first one is an error.
absl::StatusOr<std::unique_ptr<SegmentStore>> OpenRocksDbSegmentStore(
    const std::string& path, const RocksDbSegmentOptions& options);

}  // namespace kerf
