// Mends snapshots whose metadata streams have lost chunks: a new snapshot of what is left takes the
// place of each, and the old one goes to quarantine/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/check/store_repair.h"
#include "client/store/snapshots/store.h"
#include "kerf/store/v1/store.pb.h"

namespace kerf::agent {

// Of one snapshot.
inline constexpr std::size_t kMaxNamedLosses = 1'000;

struct TreeRepairOptions {
  // Only says what is damaged.
  bool dry_run = true;
  // Ids of snapshots that need not come back as they were, and kContentLoss: of these snapshots,
  // then also of those whose trees are whole. Ids of what is no whole file in snapshots/ do not
  // count.
  std::vector<std::string> accepted_losses;
  // Leaves doubtful entries (tree_salvage.h) the rights that let a user become another one.
  bool trust_doubtful = false;
  // When it says true the repair ends with Cancelled; the snapshot that it is at is left as it is.
  std::function<bool()> is_cancelled;
};

// What the new snapshot has not, or not as it was.
struct TreeLoss {
  // Of the entry, or the last one before it.
  std::string path;
  absl::Status status;
};

// One snapshot that cannot be read wholly.
struct RepairedTree {
  std::string id;
  std::string path;
  // The first damage that was found.
  absl::Status damage;
  // All entries are there; only what tells unchanged files from changed ones is not, which costs
  // the next backup a look at them.
  bool is_whole = false;
  bool is_accepted = false;
  // Counts of it; of a dry run too.
  store::v1::Salvage salvage;
  // The first kMaxNamedLosses.
  std::vector<TreeLoss> losses;
  // The snapshot that takes its place; empty: there is none.
  std::string new_id;
  // Where it is now; empty: where it was.
  std::string quarantine_path;
};

struct TreeRepairReport {
  std::vector<RepairedTree> trees;
  // Why new packs have no parity, in a store that keeps it.
  std::vector<absl::Status> parity_failures;
};

// Reads the metadata of every snapshot. Publishes as a backup does: until the new snapshot is
// durable, whole and noted, the old one stays; then the old one goes, its note first. A pin of the
// old one becomes one of both. Holds the collector's lock; beside backups.
//
// Files that have lost content stay, as verify's findings, unless kContentLoss is accepted: they
// keep no collection from running, and come back with a `kerf backup --force` of what is on the
// disk still.
//
// InvalidArgument if a snapshot's loss is accepted and nothing of it is lost. FailedPrecondition if
// a collection runs.
absl::StatusOr<TreeRepairReport> RepairTrees(const Store& store, const TreeRepairOptions& options);

// The same; `report` has also behind an error what was done before it.
absl::Status RepairTrees(const Store& store, const TreeRepairOptions& options,
                         TreeRepairReport& report);

}  // namespace kerf::agent
