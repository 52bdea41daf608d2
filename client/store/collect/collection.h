// Garbage collection: deletes what no snapshot references, while agents go on. The protocol and why
// it is safe: docs/adr/0005-publish-then-check.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/collect/epoch_round.h"
#include "client/store/index/collection_index.h"
#include "client/store/packs/compression.h"
#include "client/store/snapshots/reserve.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// A quarter of what seals a pack (PackWriterOptions): what is merged is no longer small.
inline constexpr std::uint64_t kSmallPackBytes = std::uint64_t{16} << 20;
inline constexpr std::size_t kSmallPackChunks = std::size_t{1} << 16;
// Four backups of files and metadata.
inline constexpr std::size_t kMinMergedPacks = 8;
// What the plan may take where hardly anything is free but the reserve: it is there twice when it
// is replaced. Of packs with 8,192 chunks some 250, 15 GiB: the next pass has room for more.
inline constexpr std::uint64_t kFullDiskPlanBytes = kReserveBytes / 4;

struct CollectionOptions {
  // A pack is rewritten if more than this share of its stored bytes is dead. At 0 any waste is
  // removed.
  double max_waste_ratio = 0.2;
  // Every backup seals packs of its own, however small: one whose file is smaller than this and
  // that lists fewer chunks than this is small. As soon as there are so many small packs they are
  // rewritten, all together, into large ones. So a chunk is copied again only while the packs that
  // it lies in are small, and a store that is collected now and then keeps fewer small packs than
  // that.
  std::uint64_t small_pack_bytes = kSmallPackBytes;
  std::size_t small_pack_chunks = kSmallPackChunks;
  // At least 2: one pack alone would be rewritten for ever.
  std::size_t min_merged_packs = kMinMergedPacks;
  // Says what would be done and does nothing.
  bool dry_run = false;
  // Of the packs that hold what is moved, files and metadata.
  Compression compression;
  std::uint64_t target_pack_bytes = std::uint64_t{64} << 20;
  // 0: as many as there are cores.
  unsigned thread_count = 0;
  // Temporary files and unchecked snapshots that are older go. An agent that comes back later than
  // that finds its own gone and says so; nothing else depends on it.
  std::int64_t max_temporary_age_s = std::int64_t{24} * 3600;
  std::int64_t max_pending_age_s = std::int64_t{7} * 24 * 3600;
  // What snapshots need that were forgotten longer ago than this goes, and they cannot be brought
  // back any more.
  std::int64_t max_forgotten_age_s = 0;
  // How much room there is for packs; nothing if that is not known. Empty: what the file system
  // says.
  std::function<std::optional<std::uint64_t>()> available_bytes;
  // The plan is no longer than this, or than a quarter of the room that there is.
  std::uint64_t full_disk_plan_bytes = kFullDiskPlanBytes;
  // Called behind each step; a status that is not OK ends the collection there, as a crash would.
  std::function<absl::Status(CollectionStep)> on_step;
  // Asked while it reads which chunks the store has, by any thread: the collection ends there, too,
  // with Cancelled.
  std::function<bool()> is_cancelled;
};

struct CollectionReport {
  std::uint64_t epoch = 0;
  std::uint64_t snapshot_count = 0;
  std::uint64_t pending_count = 0;
  std::uint64_t chunk_count = 0;
  std::uint64_t live_chunk_count = 0;
  std::uint64_t condemned_chunk_count = 0;
  std::uint64_t deleted_pack_count = 0;
  // Of them, those that had live chunks.
  std::uint64_t rewritten_pack_count = 0;
  // Of those, the ones that were small and nothing else.
  std::uint64_t merged_pack_count = 0;
  // Packs with too much waste that were not rewritten, because the disk is too full to write what
  // is live in them; and their waste.
  std::uint64_t left_pack_count = 0;
  std::uint64_t left_bytes = 0;
  std::uint64_t moved_bytes = 0;
  // Pack files before and after.
  std::uint64_t stored_bytes_before = 0;
  std::uint64_t stored_bytes_after = 0;
  std::uint64_t removed_temporary_count = 0;
  // New packs that have no parity, in a store that keeps it.
  std::uint64_t parity_failure_count = 0;
  // Chunks that checked snapshots reference and no pack holds.
  std::uint64_t missing_chunk_count = 0;
  // What was met and set right, or does no harm, one line each.
  std::vector<std::string> findings;
  // What is damaged and was left as it is, or put into quarantine, one line each.
  std::vector<std::string> damage;
};

// Goes on behind packs that cannot be read: it keeps them and says so. Where the disk is too full
// to rewrite everything it deletes what it can, and goes on with the room that this has made.
//
// DataLoss if a snapshot is gone that nobody has forgotten, or a checked one is damaged: then
// nobody knows what it references. FailedPrecondition if another collection runs, if a snapshot
// cannot be read for a reason that may pass, or if the index's epoch is past kMaxFollowedEpoch or
// the store's past kMaxStoreEpoch. The index's errors come back as they are; run it again.
absl::StatusOr<CollectionReport> CollectGarbage(const Store& store, CollectionIndex& index,
                                                const CollectionOptions& options);

// The same. `report` is filled as things are done, also before an error.
absl::Status CollectGarbage(const Store& store, CollectionIndex& index,
                            const CollectionOptions& options, CollectionReport& report);

}  // namespace kerf::agent
