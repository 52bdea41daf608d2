// The embedded index: RocksDB in a folder of its own. The default of a kerfd without a cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "server/index/index.h"

namespace rocksdb {
class Env;
}

namespace kerf {

struct RocksDbIndexOptions {
  // Blocks, their filters and their indexes that are kept in memory. For fast answers about new
  // chunks the filters should fit: 1.5 bytes an entry.
  std::uint64_t block_cache_bytes = 64 * kMiB;
  // Entries not yet in table files, all together.
  std::uint64_t memtable_bytes = 32 * kMiB;
  // Table files open at once; about 64 MiB of entries each.
  int max_open_files = 512;
  // Waits for the disk on each Commit. Without it a power cut may lose the last commits, which
  // costs an agent their second upload, never its data; a killed process loses none. Forget and
  // AdvanceEpoch always wait.
  bool sync_commits = false;
  // Null: the machine's file system. Tests give one that fails; it outlives the index.
  rocksdb::Env* env = nullptr;
};

class EmbeddedIndex : public Index {
 public:
  // Makes what was written until now durable, and notes how far that is. Done at its end as well.
  virtual absl::Status MarkDurable() = 0;
  // Of the writes that were noted as durable, how many were not there when it was opened: somebody
  // has removed or damaged its log. It has gone back in time by so much, as an old copy of itself
  // would: what it was told to forget then is back together with the epoch of that time.
  virtual std::uint64_t lost_write_count() const = 0;
  // Takes as long as there are repositories.
  virtual absl::StatusOr<IndexTotals> CountAll() = 0;
};

// Opens or creates the index in folder `path`, whose parent must exist. It owns the folder until it
// is destroyed. FailedPrecondition: another process or object has it open, or a newer kerf wrote
// it; DataLoss: it is corrupt (delete the folder and rebuild the index from the store);
// NotFound, ResourceExhausted or Unavailable: what the file system said.
//
// Stats are exact, after a crash too. ResourceExhausted from a write: the disk is full. Unavailable
// from a write: the disk failed; RocksDB then takes no more writes until it is opened again.
absl::StatusOr<std::unique_ptr<EmbeddedIndex>> OpenRocksDbIndex(const std::string& path,
                                                                const RocksDbIndexOptions& options);

}  // namespace kerf
