// Brings a snapshot, or a part of it, back below a target directory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/restore/restrictions.h"
#include "client/fs/restorer.h"
#include "client/store/format/tree_codec.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

struct RestoreRunOptions {
  // A node's path: its contents go straight into the target (or, if it is no directory, it itself).
  // Empty: everything, at its full path.
  std::string subtree;
  std::string target;
  RestoreOptions restore;
  // Longer recipes are not kept in memory: they are read from the tree stream again.
  std::size_t max_kept_chunks = kMaxKeptChunks;
  // Checks the digest of every chunk that is read.
  bool verify_chunks = true;
  // Gives doubtful entries (tree_salvage.h) the rights that let a user become another one.
  bool trust_doubtful = false;
  // Of every entry, doubtful or not.
  RestoreRestrictions restrictions;
  // Removes from the target what the snapshot has not, at and below the paths that were backed up,
  // if all else went well.
  bool delete_others = false;
  // Also what the backup left out on purpose; else that stays.
  bool delete_excluded = false;
  // Restores nothing, and only tells what delete_others would remove.
  bool dry_run = false;
  // Each thing that is removed, with all that is below it; from the calling thread.
  std::function<void(const std::string& path)> on_removed;
  // Ends the run with Cancelled once it gives true; asked often and by several threads.
  std::function<bool()> cancelled;
  // Now and then, from the calling thread: what the restorer has done.
  std::function<void(const RestoreSummary&)> on_progress;
};

struct RestoreResult {
  RestoreSummary restored;
  // Places at which entries of the tree are lost.
  std::uint64_t gap_count = 0;
  // How many: what the snapshot says that it has, less what was found.
  std::uint64_t lost_entry_count = 0;
  // Directories of which nothing but the name is known.
  std::uint64_t made_up_count = 0;
  // Rights that doubtful entries were not given.
  std::uint64_t withheld_count = 0;
  // Entries without rights that they have in the snapshot, and devices, their further names too,
  // that were left out: by `restrictions`, and no errors.
  std::uint64_t without_set_id_count = 0;
  std::uint64_t left_out_device_count = 0;
  // Files and directories that were removed, or would be.
  std::uint64_t removed_count = 0;
  // What could not be removed, or is on another file system.
  std::uint64_t unremoved_count = 0;
  // What stays because the backup left it out, or because it is the store.
  std::uint64_t spared_count = 0;
  // Something else went wrong, and nothing was removed.
  bool kept_others = false;
  // What could not be read of the store, though it was not needed: other copies of chunks, the
  // footers of packs, folders of packs.
  std::vector<absl::Status> unreadable;
};

// Entries that fail (DataLoss where the store is damaged) are reported through
// options.restore.on_error and counted; so is every place at which entries of the tree are lost,
// under the last path before it. The run goes on. An error where nothing can be restored: NotFound
// for a subtree that the snapshot does not hold, FailedPrecondition for delete_others where the
// snapshot lacks what its backup could not read, or says what it left out in a way that this kerf
// does not understand, or where the target is the root of the system, or in the store. It is
// OutOfRange where restrictions.max_bytes are too few. That is known before anything is written,
// from the list of files itself, whatever the snapshot says of its size. If the list is another one
// when it is read again, the run ends before the first entry that would be too much.
absl::StatusOr<RestoreResult> RunRestore(const Store& store, const store::v1::Snapshot& snapshot,
                                         const RestoreRunOptions& options);

}  // namespace kerf::agent
