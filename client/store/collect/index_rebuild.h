// Makes the server's index of a store again, from what the store holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/collect/epoch_round.h"
#include "client/store/index/collection_index.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// Copies of chunks that the index was told of.
struct RebuildProgress {
  std::uint64_t done_count = 0;
  std::uint64_t total_count = 0;
  // Their lengths.
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
};

struct RebuildOptions {
  // Called behind each step; a status that is not OK ends the run there, as a crash would. The next
  // one, or the next collection, goes on from there.
  std::function<absl::Status(CollectionStep)> on_step;
  // The same behind each batch of chunks, and before the first one.
  std::function<absl::Status(const RebuildProgress&)> on_progress;
  // Asked while it reads which chunks the store has, by any thread: the run ends there, too, with
  // Cancelled.
  std::function<bool()> is_cancelled;
};

struct RebuildReport {
  // Of store and index.
  std::uint64_t epoch = 0;
  std::uint64_t pack_count = 0;
  // Each copy counts.
  std::uint64_t chunk_count = 0;
  // Entries that the index had of what the store does not hold.
  std::uint64_t removed_entry_count = 0;
  // Packs that cannot be read: the index knows nothing of their chunks any more.
  std::uint64_t damaged_pack_count = 0;
  // What was met and is not as it should be, one line each.
  std::vector<std::string> findings;
};

// Afterwards the index is at the store's epoch, knows every chunk of the store as DUPLICATE, and
// names nothing that is gone, whatever it held before and of whatever epoch. It is a collection of
// garbage that finds the index untrustworthy and deletes nothing: agents may go on, and reopen
// their streams when the epoch rises; collections wait. FailedPrecondition if a collection or
// another rebuilding runs, or as EpochRound::ReadEpochs says. Unavailable if the index went back in
// time meanwhile. The index's errors come back as they are; run it again.
absl::StatusOr<RebuildReport> RebuildIndex(const Store& store, CollectionIndex& server,
                                           const RebuildOptions& options);

}  // namespace kerf::agent
