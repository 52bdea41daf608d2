// The embedded index as kerfd keeps it: it mends itself, and says when it takes no commits.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "server/index/disk_room.h"
#include "server/index/index.h"
#include "server/index/rocksdb_index.h"

namespace kerf {

struct KeptIndexOptions {
  RocksDbIndexOptions rocksdb;
  // With less room on its disk it takes no commits. Forgetting goes on, which may be what makes
  // room.
  std::uint64_t min_free_bytes = kMinFreeDiskBytes;
  // Held back in a file, so that the index can be opened, and told to forget, on a disk that others
  // have filled. Less than min_free_bytes, or commits would take it.
  std::uint64_t reserve_bytes = 64 * kMiB;
  // How often it looks at its disk and its folder.
  std::chrono::milliseconds check_interval{1'000};
  // How often it counts what it holds, for size(); less often if that takes long.
  std::chrono::milliseconds count_interval{10'000};
};

// Opens or creates the index in `folder`/index; `folder` is there. What it does by itself, each
// time with a line in the log:
//
// - A damaged index is set aside, as `folder`/index.damaged-TIME, and an empty one begun. That is
//   an index that has gone back to its beginning, epoch and all: it names nothing that is gone
//   (docs/adr/0005), and is made whole by `kerf index rebuild`, a collection, or uploads. The last
//   kKeptDamaged are kept.
// - One that cannot be written any more is opened again once its disk can be: until then it is
//   read. If that does not help, a part of it cannot be read, which is damage, too.
// - What the process or the machine lacks (file descriptors, memory, a permission) is no damage,
//   however often it is met.
// - One of which the folder was removed is begun anew, unless the disk itself is another one.
// - What it has written is made durable every few seconds, so that it knows at its next start what
//   it has lost.
//
// health() tells what of this is so now. Errors are those of OpenRocksDbIndex without DataLoss, and
// ResourceExhausted where there is no room to open it.
absl::StatusOr<std::unique_ptr<Index>> OpenKeptIndex(const std::string& folder,
                                                     const KeptIndexOptions& options);

// Damaged indexes that are kept beside the index; an older one is deleted.
inline constexpr int kKeptDamaged = 2;

}  // namespace kerf
