#include "client/store/collect/undelete.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/roots.h"

namespace kerf::agent {
namespace {

absl::Status CheckAllIsThere(const Store& store, const store::v1::Snapshot& snapshot,
                             const std::function<bool()>& is_cancelled) {
  ChunkIndex index(store.packs_directory(), SeenPacks::kAreDurable);
  index.EndWhen(is_cancelled);
  ChunkReader reader(index, ChunkReader::Options());
  // Of no epoch: everything is looked at, as collections may have run since it was forgotten.
  KERF_ASSIGN_OR_RETURN(const FinishCheck check,
                        CollectionGuard().Check(store, index, [&](const ChunkVisitor& visit) {
                          return VisitSnapshot(snapshot, DigestSizeBytes(store.digest_algorithm()),
                                               reader, visit, EntryVisitor());
                        }));
  if (check.lost.empty()) return absl::OkStatus();
  return absl::DataLossError(Cat("collections took ", check.lost.size(), " of its chunks"));
}

// Several that bring it back at once share what is pending: the first one makes it the snapshot,
// and the others find that done.
bool IsBackAlready(const Store& store, const std::string& id) {
  return ReadSnapshot(SnapshotPath(store.snapshots_directory(), id)).ok();
}

// Durable on return, as what one has done oneself.
absl::Status SettleWhatAnotherHasDone(const Store& store, const std::string& id) {
  KERF_RETURN_IF_ERROR(SyncDirectory(store.snapshots_directory()));
  return store.SettleNote(id);
}

absl::Status Confirm(const Store& store, const store::v1::Snapshot& snapshot) {
  const absl::Status status = ConfirmPending(store, snapshot);
  if (!absl::IsFailedPrecondition(status)) return status;
  if (IsBackAlready(store, snapshot.id())) return SettleWhatAnotherHasDone(store, snapshot.id());
  // That of a backup speaks of its backup.
  return absl::FailedPreconditionError(
      Cat("snapshot ", snapshot.id(), " was brought back and forgotten by others meanwhile, or ",
          "this stood still for too long: run it again"));
}

}  // namespace

absl::StatusOr<std::string> FindForgotten(const Store& store, const std::string& name) {
  KERF_ASSIGN_OR_RETURN(const SnapshotList list, store.ListForgotten());
  std::string found;
  for (const store::v1::Snapshot& snapshot : list.snapshots) {
    if (name.empty() || !snapshot.id().starts_with(name)) continue;
    if (!found.empty()) {
      return absl::InvalidArgumentError(
          Cat("several forgotten snapshots begin with '", name, "': give more of the id"));
    }
    found = snapshot.id();
  }
  if (!found.empty()) return found;
  return absl::NotFoundError(Cat("no snapshot '", name, "' was forgotten and can be brought back: ",
                                 "`kerf snapshots --forgotten` lists them"));
}

// A copy becomes pending, and the forgotten one stays until that is a snapshot: whoever is killed
// in between leaves what he found, and a collection does not take the file for one of a backup that
// died a week ago.
absl::Status Undelete(const Store& store, const std::string& id,
                      const std::function<bool()>& is_cancelled) {
  const std::string forgotten = SnapshotPath(store.forgotten_directory(), id);
  absl::StatusOr<store::v1::Snapshot> read = ReadSnapshot(forgotten);
  if (absl::IsNotFound(read.status()) && IsBackAlready(store, id)) {
    return SettleWhatAnotherHasDone(store, id);
  }
  KERF_ASSIGN_OR_RETURN(store::v1::Snapshot snapshot, std::move(read));
  KERF_RETURN_IF_ERROR(PublishPending(store, snapshot));
  absl::Status status = CheckAllIsThere(store, snapshot, is_cancelled);
  if (!status.ok()) {
    WithdrawPending(store, id).IgnoreError();
    if (absl::IsNotFound(status)) status = absl::DataLossError(status.message());
    return Annotate(status, Cat("snapshot ", id, " cannot be brought back"));
  }
  KERF_RETURN_IF_ERROR(Confirm(store, snapshot));
  // Who has forgotten it anew meanwhile has put it there: it can be brought back once more.
  const std::string path = SnapshotPath(store.snapshots_directory(), id);
  if (!MayExist(path)) return absl::OkStatus();
  status = RemoveFile(forgotten);
  // A collection may have thought that its time was over.
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  // Or just now.
  if (status.ok() && !MayExist(path)) {
    return store.WriteSnapshotTo(store.forgotten_directory(), snapshot);
  }
  return SyncDirectory(store.forgotten_directory());
}

}  // namespace kerf::agent
