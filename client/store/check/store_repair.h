// Mends what a store has beside its packs: configuration, epoch, folders, snapshots and their notes
// (docs/adr/0016-what-a-store-notices.md). Nothing is deleted: what is of no use is moved to
// quarantine/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf::agent {

struct RepairOptions {
  // Says what would be done and does nothing.
  bool dry_run = true;
  // Ids of snapshots that are damaged or gone and need not come back, and kManifestLoss.
  std::vector<std::string> accepted_losses;
  // Whether snapshots whose files are whole have lost something, and kContentLoss, is for
  // RepairTrees (tree_repair.h) to see.
  bool trees_follow = false;
  // All snapshots that are gone need not come back: kerf 0.1.0, which removes no notes, has
  // forgotten them.
  bool accept_missing = false;
  // For a configuration that is made anew, where no snapshot has the store's id: the id, or that
  // any will do.
  std::string store_id;
  bool new_id = false;
  // What is remembered of the store elsewhere: ids that it may have, and the highest epoch.
  std::vector<std::string> remembered_ids;
  std::uint64_t remembered_epoch = 0;
};

// That the manifest is gone, and with it the knowledge whether snapshots are.
inline constexpr char kManifestLoss[] = "manifest";
// That files have chunks that no pack holds.
inline constexpr char kContentLoss[] = "content";

// One thing that is not as it should be.
struct RepairStep {
  enum class State {
    // It can be mended.
    kWould,
    kDone,
    kFailed,
    // People have to decide, or to bring something back.
    kNeedsWord,
  };
  // "config", "epoch", "folder", "snapshot", "pending", "note", "manifest", "pack", "parity",
  // "tree", "lost", "set_back".
  std::string what;
  std::string path;
  // What is wrong and what is done, or has to be.
  std::string text;
  State state = State::kWould;
};

struct RepairReport {
  std::vector<RepairStep> steps;

  std::size_t Count(RepairStep::State state) const;
};

// NotFound if there is no store. InvalidArgument if a loss is accepted that is none.
// FailedPrecondition while a collection runs. Beside backups.
absl::StatusOr<RepairReport> RepairStore(const std::string& directory,
                                         const RepairOptions& options);

// The same; `report` has also behind an error what was done before it.
absl::Status RepairStore(const std::string& directory, const RepairOptions& options,
                         RepairReport& report);

// Gives the store, a copy of another one, an id of its own, and returns that. Nobody else may use
// the store meanwhile.
absl::StatusOr<std::string> GiveNewId(const std::string& directory);

}  // namespace kerf::agent
