// Gives all packs of a store the parity that its setting asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

struct ParityRunOptions {
  // 0: as many as there are cores.
  unsigned thread_count = 0;
  // Packs that were looked at, with those of before; called one at a time.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;
  // When it says true the run ends with Cancelled: the next one goes on from there.
  std::function<bool()> is_cancelled;
};

struct ParityReport {
  unsigned percent = 0;
  std::uint64_t pack_count = 0;
  // Those that had it already.
  std::uint64_t present_count = 0;
  std::uint64_t made_count = 0;
  std::uint64_t removed_count = 0;
  // Of all parity that there is now.
  std::uint64_t parity_bytes = 0;
  // Packs that got none, or with 0 keep theirs, for they are damaged (DataLoss), or could not be
  // read or written.
  std::vector<absl::Status> failures;
};

// As the store's setting says: with a percentage, every pack that has no parity of that shape is
// read, proven, and gets it; with 0 the parity of every pack that is proven is removed. Beside
// backups and collections. ResourceExhausted if the disk is full, Unavailable if parity cannot be
// made on this machine.
absl::StatusOr<ParityReport> FollowParitySetting(const Store& store,
                                                 const ParityRunOptions& options);

// The same; `report` has also behind an error what was done before it.
absl::Status FollowParitySetting(const Store& store, const ParityRunOptions& options,
                                 ParityReport& report);

}  // namespace kerf::agent
