// One restore: reads a snapshot's tree and the content of its files, and recreates them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/fs/restorer.h"
#include "client/agent/store/store.h"

namespace kerf::agent {

// As of now; written by the run, read by whoever shows progress.
struct RestoreProgress {
  std::atomic<std::uint64_t> done_files{0};
  // Holes included, like the sizes in a snapshot's statistics.
  std::atomic<std::uint64_t> done_bytes{0};
};

struct RestoreRunOptions {
  // A path in the snapshot, with or without '/' at its ends. What lies below it goes straight into
  // the target; a path that is not a directory goes there under its name. Empty restores
  // everything, with full paths.
  std::string subtree;
  std::string target;
  // on_error gets DataLoss for a file whose chunks are damaged or missing.
  RestoreOptions restore;
  // Ends the run with Cancelled when it becomes true; what is complete by then stays.
  const std::atomic<bool>* cancelled = nullptr;
};

// OK means that everything was restored but for what on_error was called for. NotFound if the
// snapshot does not hold the subtree; DataLoss if the snapshot's tree itself is damaged: what came
// before the damage is restored. Names of one file that lie outside the subtree do not count: the
// first one inside has the content.
absl::StatusOr<RestoreSummary> RestoreSnapshot(const Store& store,
                                               const store::v1::Snapshot& snapshot,
                                               const RestoreRunOptions& options,
                                               RestoreProgress& progress);

}  // namespace kerf::agent
