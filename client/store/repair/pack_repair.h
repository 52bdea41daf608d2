// Mends packs. A damaged one gets its bytes again with its parity, or what is sound in it goes into
// new packs; the damaged file goes into quarantine/. Damaged parity is made anew.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/check/verify.h"
#include "client/store/collect/epoch_round.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

struct PackRepairOptions {
  // Only says what is damaged.
  bool dry_run = false;
  // 0: as many as there are cores.
  unsigned thread_count = 0;
  // Packs that were read; behind them the parity that is made anew.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;
  // When it says true the repair ends with Cancelled, before anything is moved; packs that were
  // mended with their parity by then stay so, and so does parity that was made anew.
  std::function<bool()> is_cancelled;
  // Whoever mends snapshots next asks FindLost behind that.
  bool trees_follow = false;
  // Behind each of kPlanned, kEpochRaised, kDeleted (moved away), kEpochRaisedAgain and
  // kPlanRemoved; what is not OK ends the repair, and the next one goes on from there.
  std::function<absl::Status(CollectionStep)> on_step;
};

// One pack that is not as it was written.
struct RepairedPack {
  std::string path;
  // The first damage that was found; names the path.
  absl::Status damage;
  // Its parity has what it lost: it has its bytes again, or with a dry run would have.
  bool is_mended = false;
  // Why it could not, where it has parity.
  absl::Status parity_failure;
  // Its footer could not be read: of its chunks only those are known that snapshots need.
  bool footer_is_lost = false;
  // Chunks that are sound in it and nowhere else: they are in new packs now.
  std::uint64_t saved_chunk_count = 0;
  // Chunks of which neither it nor another pack has a sound copy.
  std::uint64_t lost_chunk_count = 0;
  // Where it is now. Empty: it stays, with a dry run, or because something of it may yet be read
  // (an error of the disk, not rot) or a newer kerf wrote it.
  std::string quarantine_path;
  // For one of these reasons it stays, or with a dry run would stay.
  bool may_come_back = false;
};

// Parity that is damaged, or not that of the pack as it is.
struct RepairedParity {
  std::string path;
  absl::Status damage;
  // Why it could not be made anew; OK if it was, or with a dry run would be.
  absl::Status failure;
  // The store keeps none: it goes to quarantine/ instead.
  bool is_removed = false;
};

struct PackRepairReport {
  std::vector<RepairedPack> packs;
  std::vector<RepairedParity> parity;
  // New packs that have no parity, in a store that keeps it; says what to do.
  std::vector<absl::Status> parity_failures;
  // What snapshots miss, file by file: of packs that were moved, and of those that had gone before.
  // Not of a dry run with damaged packs, of which nobody knows yet what they give back.
  std::uint64_t lost_count = 0;
  std::vector<VerifyFinding> lost;
};

// Reads every pack. Holds the collector's lock; beside backups. Once it has moved a pack the
// server's index is not believed (its answers are UNVERIFIED) until `kerf gc` or `kerf index
// rebuild` has told it: backups store again what they find lost. FailedPrecondition if a collection
// runs, ResourceExhausted if there is no room for new packs: nothing was moved then, and
// packs that were mended with their parity stay so.
absl::StatusOr<PackRepairReport> RepairPacks(const Store& store, const PackRepairOptions& options);

// The same; `report` has also behind an error what was done before it.
absl::Status RepairPacks(const Store& store, const PackRepairOptions& options,
                         PackRepairReport& report);

// What snapshots need and no pack holds; of the report of RepairPacks. Beside backups.
absl::Status FindLost(const Store& store, const std::function<bool()>& is_cancelled,
                      PackRepairReport& report);

}  // namespace kerf::agent
