// The snapshots of a store's folder, and what is wrong with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/snapshots/manifest.h"
#include "kerf/store/v1/store.pb.h"

namespace kerf::agent {

// A snapshot file that cannot be read.
struct DamagedSnapshot {
  std::string path;
  absl::Status status;
  // As the file's name says.
  std::string id;
  // As its note says; nothing: it is not known.
  std::optional<std::int64_t> started_unix_ns;
};

// A snapshot that was published and not forgotten, and is not there.
struct MissingSnapshot {
  std::string id;
  // Its time as of DamagedSnapshot.
  std::optional<std::int64_t> started_unix_ns;
};

struct SnapshotList {
  // By the time at which they began, oldest first.
  std::vector<store::v1::Snapshot> snapshots;
  std::vector<DamagedSnapshot> damaged;
  std::vector<MissingSnapshot> missing;
  // Why it is not known whether any is missing; OK if it is.
  absl::Status manifest;
};

// Where `directory` keeps the snapshot.
std::string SnapshotPath(std::string_view directory, std::string_view id);

absl::StatusOr<store::v1::Snapshot> ReadSnapshot(const std::string& path);

// Those of one folder; none is missing.
absl::StatusOr<SnapshotList> ListSnapshotsIn(const std::string& directory);

// Adds what the notes know of those that are damaged or missing. `forgotten_directory` has those
// that were forgotten.
void CompareWithManifest(const Manifest& manifest, const std::string& snapshots_directory,
                         const std::string& forgotten_directory, SnapshotList& list);

// The newest one. DataLoss if one that is damaged or missing may be newer, or it is not known
// whether one is missing, and names the one that can be asked for by its id; NotFound if there is
// none.
absl::StatusOr<store::v1::Snapshot> FindLatest(const std::string& store_directory,
                                               SnapshotList list);

// DataLoss, with what to do about it.
absl::Status DescribeLoss(const MissingSnapshot& missing);

// DataLoss if any is damaged or missing: whoever chooses by the order of snapshots must not go on.
absl::Status CheckAllAreSound(const SnapshotList& list);
// DataLoss if any is missing, or may be.
absl::Status CheckNoneIsMissing(const SnapshotList& list);

}  // namespace kerf::agent
