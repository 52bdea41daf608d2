#include "client/store/snapshots/snapshot_list.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"

namespace kerf::agent {
namespace {

// What protobuf can parse.
constexpr std::uint64_t kMaxSnapshotFileBytes = std::uint64_t{1} << 31;
constexpr std::string_view kSnapshotSuffix = ".snap";

std::optional<std::int64_t> NotedStart(const Manifest& manifest, std::string_view id) {
  const absl::StatusOr<store::v1::SnapshotNote> note = manifest.Read(id);
  if (!note.ok() || note->started_unix_ns() == 0) return std::nullopt;
  return note->started_unix_ns();
}

// Of a snapshot that was noted. It may be forgotten or brought back meanwhile, which is why its
// place is looked at on both sides of the other one; and be purged, behind its note, which comes
// last.
bool IsMissing(const Manifest& manifest, const std::string& snapshots_directory,
               const std::string& forgotten_directory, std::string_view id) {
  const std::string path = SnapshotPath(snapshots_directory, id);
  return !MayExist(path) && !MayExist(SnapshotPath(forgotten_directory, id)) && !MayExist(path) &&
         manifest.Has(id);
}

std::string DescribeMissing(const MissingSnapshot& missing) {
  return Cat("snapshot ", missing.id, " is gone and nobody has forgotten it: bring its file back, ",
             "or accept its loss with `kerf repair --accept-loss ", missing.id, "`");
}

std::string DescribeDamaged(const DamagedSnapshot& damaged) {
  return Cat("snapshot ", damaged.id, " is damaged (", MessageOf(damaged.status),
             "): bring its file back, or accept its loss with `kerf repair --accept-loss ",
             damaged.id, "`");
}

bool MayBeNewer(const std::optional<std::int64_t>& started_unix_ns,
                const std::vector<store::v1::Snapshot>& snapshots) {
  return snapshots.empty() || !started_unix_ns.has_value() ||
         *started_unix_ns >= snapshots.back().started_unix_ns();
}

}  // namespace

std::string SnapshotPath(std::string_view directory, std::string_view id) {
  return Cat(directory, "/", id, kSnapshotSuffix);
}

absl::StatusOr<store::v1::Snapshot> ReadSnapshot(const std::string& path) {
  KERF_ASSIGN_OR_RETURN(const std::string payload,
                        ReadFramedFile(path, kSnapshotMagic, kMaxSnapshotFileBytes));
  store::v1::Snapshot snapshot;
  if (!snapshot.ParseFromString(payload)) {
    return absl::DataLossError(Cat(path, ": it is no snapshot"));
  }
  if (path.substr(path.rfind('/') + 1) != Cat(snapshot.id(), kSnapshotSuffix)) {
    return absl::DataLossError(Cat(path, ": it is snapshot ", snapshot.id()));
  }
  return snapshot;
}

absl::StatusOr<SnapshotList> ListSnapshotsIn(const std::string& directory) {
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  SnapshotList list;
  for (const std::string_view name : names) {
    if (!name.ends_with(kSnapshotSuffix)) continue;
    const std::string path = Cat(directory, "/", name);
    absl::StatusOr<store::v1::Snapshot> snapshot = ReadSnapshot(path);
    if (snapshot.ok()) {
      list.snapshots.push_back(*std::move(snapshot));
    } else if (!absl::IsNotFound(snapshot.status())) {
      const std::string_view id = name.substr(0, name.size() - kSnapshotSuffix.size());
      list.damaged.push_back({path, snapshot.status(), std::string(id), std::nullopt});
    }
  }
  std::sort(list.snapshots.begin(), list.snapshots.end(), [](const auto& a, const auto& b) {
    return std::pair(a.started_unix_ns(), a.id()) < std::pair(b.started_unix_ns(), b.id());
  });
  return list;
}

void CompareWithManifest(const Manifest& manifest, const std::string& snapshots_directory,
                         const std::string& forgotten_directory, SnapshotList& list) {
  std::set<std::string> ids;
  for (const store::v1::Snapshot& snapshot : list.snapshots) ids.insert(snapshot.id());
  for (DamagedSnapshot& damaged : list.damaged) {
    ids.insert(damaged.id);
    damaged.started_unix_ns = NotedStart(manifest, damaged.id);
  }
  const absl::StatusOr<std::vector<std::string>> noted = manifest.ListIds();
  // Of kerf 0.1.0; that one was lost is for whoever opens the store to see.
  if (absl::IsNotFound(noted.status())) return;
  if (!noted.ok()) {
    list.manifest = Annotate(noted.status(),
                             "the manifest cannot be listed, so that nobody knows whether "
                             "snapshots are missing");
    return;
  }
  for (const std::string& id : *noted) {
    if (ids.contains(id) || !IsMissing(manifest, snapshots_directory, forgotten_directory, id)) {
      continue;
    }
    list.missing.push_back({id, NotedStart(manifest, id)});
  }
}

absl::StatusOr<store::v1::Snapshot> FindLatest(const std::string& store_directory,
                                               SnapshotList list) {
  std::string newer;
  for (const DamagedSnapshot& damaged : list.damaged) {
    // Of a newer kerf: nobody should repair that.
    if (absl::IsFailedPrecondition(damaged.status)) return damaged.status;
    if (MayBeNewer(damaged.started_unix_ns, list.snapshots)) newer = DescribeDamaged(damaged);
  }
  for (const MissingSnapshot& missing : list.missing) {
    if (MayBeNewer(missing.started_unix_ns, list.snapshots)) newer = DescribeMissing(missing);
  }
  if (!list.manifest.ok()) newer = MessageOf(list.manifest);
  if (newer.empty()) {
    if (!list.snapshots.empty()) return std::move(list.snapshots.back());
    return absl::NotFoundError(Cat(store_directory, " holds no snapshot yet"));
  }
  const std::string whole =
      list.snapshots.empty() ? std::string("no other one is there")
                             : Cat("the newest one that is whole is ", list.snapshots.back().id(),
                                   ", which can be asked for by that id");
  return absl::DataLossError(
      Cat("which snapshot is the latest is not known, for ", newer, "; ", whole));
}

absl::Status DescribeLoss(const MissingSnapshot& missing) {
  return absl::DataLossError(DescribeMissing(missing));
}

absl::Status CheckAllAreSound(const SnapshotList& list) {
  for (const DamagedSnapshot& damaged : list.damaged) {
    if (absl::IsFailedPrecondition(damaged.status)) return damaged.status;
    return absl::DataLossError(DescribeDamaged(damaged));
  }
  return CheckNoneIsMissing(list);
}

absl::Status CheckNoneIsMissing(const SnapshotList& list) {
  if (!list.manifest.ok()) return list.manifest;
  if (list.missing.empty()) return absl::OkStatus();
  const std::string others = list.missing.size() == 1
                                 ? std::string()
                                 : Cat("; so are ", list.missing.size() - 1,
                                       " more: `kerf repair --accept-missing` is for all of them, "
                                       "as where kerf 0.1.0 has ",
                                       "forgotten them");
  return absl::DataLossError(Cat(DescribeMissing(list.missing.front()), others));
}

}  // namespace kerf::agent
