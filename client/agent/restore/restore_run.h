// Brings a snapshot, or a part of it, back below a target directory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
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
  // Ends the run with Cancelled once it gives true; asked often and by several threads.
  std::function<bool()> cancelled;
  // Now and then, from the calling thread: what the restorer has done.
  std::function<void(const RestoreSummary&)> on_progress;
};

// Entries that fail (DataLoss where the store is damaged) are reported through
// options.restore.on_error and counted; the run goes on. An error where nothing can be restored:
// DataLoss for a metadata stream that is damaged, NotFound for a subtree that the snapshot does not
// hold.
absl::StatusOr<RestoreSummary> RunRestore(const Store& store, const store::v1::Snapshot& snapshot,
                                          const RestoreRunOptions& options);

}  // namespace kerf::agent
