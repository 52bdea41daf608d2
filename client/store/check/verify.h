// Is everything there that the snapshots reference, and is it what it was?
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/check/read_subset.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

struct VerifyProgress {
  // With read_data those that are to be read.
  std::uint64_t packs_done = 0;
  std::uint64_t packs_total = 0;
  // Raw bytes that were read and hashed.
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t snapshots_done = 0;
  std::uint64_t snapshots_total = 0;
};

struct VerifyOptions {
  // Also reads, decompresses and hashes every chunk of every pack; without it only the metadata is
  // read.
  bool read_data = false;
  // Only whether packs hold what snapshots need: whoever asks has looked at all else.
  bool references_only = false;
  // Of which packs, if not of all.
  ReadSubset subset;
  // 0: as many as there are cores.
  unsigned thread_count = 0;
  // Called from any thread, one call at a time.
  std::function<void(const VerifyProgress&)> on_progress;
  // The same, whenever another pack is read: all of the subset up to it are.
  std::function<void(const PackId&)> on_read_up_to;
  // Reads no further pack or snapshot when it says true; the verification ends with Cancelled.
  std::function<bool()> is_cancelled;
};

// One thing that is wrong.
struct VerifyFinding {
  // Empty if it is about the store as a whole or a pack.
  std::string snapshot_id;
  // Of the tree's entry, empty if it is about none.
  std::string path;
  // What is wrong; names the file of the store that is concerned.
  absl::Status status;
};

inline constexpr std::size_t kMaxFindings = 10'000;

// What to do about VerifyReport::damaged_packs; if all of them are mendable, and if not.
inline constexpr std::string_view kMendWithParity =
    "`kerf repair --packs --apply` gives these packs their bytes again with their parity";
inline constexpr std::string_view kMendDamagedPacks =
    "`kerf repair --packs --apply` saves what is sound in these packs and names the files that are "
    "lost; then `kerf backup --force` over the same paths stores anew what is on the disk still";

struct VerifyReport {
  VerifyProgress done;
  // All packs of the store, and how many of them were read.
  std::uint64_t pack_count = 0;
  std::uint64_t read_pack_count = 0;
  std::uint64_t entry_count = 0;
  // Checks of a chunk against the packs, each time that it is referenced.
  std::uint64_t reference_count = 0;
  std::uint64_t finding_count = 0;
  // The first kMaxFindings of them.
  std::vector<VerifyFinding> findings;
  // Files that are no whole packs, and, if the data was read, those with damaged chunks. A backup
  // heals none of them by itself: kMendDamagedPacks.
  std::set<std::string> damaged_packs;
  // Of them, if the data was read, those that their parity can make whole again.
  std::set<std::string> mendable_packs;
  // Why it is not known of another one of them whether its parity can: ISA-L is not on this
  // machine, say, or the disk cannot read the parity now.
  absl::Status parity_failure;
  // Of a store that keeps parity.
  std::uint64_t packs_without_parity = 0;
};

// Goes on behind every finding. An error only if the folder of all packs cannot be listed, or
// Cancelled. Beside backups and collections: snapshots that are removed meanwhile do not count.
// What is read of packs comes from the disk, not out of the page cache, and does not stay there.
absl::StatusOr<VerifyReport> VerifyStore(const Store& store, const VerifyOptions& options);

}  // namespace kerf::agent
