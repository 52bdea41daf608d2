#include "client/store/snapshots/pending.h"

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {

absl::Status PublishPending(const Store& store, store::v1::Snapshot& snapshot) {
  return store.WriteSnapshotTo(store.pending_directory(), snapshot);
}

absl::Status ConfirmPending(const Store& store, const store::v1::Snapshot& snapshot) {
  const std::string& id = snapshot.id();
  const std::string from = Store::SnapshotPath(store.pending_directory(), id);
  const absl::Status status =
      PublishFile(from, Store::SnapshotPath(store.snapshots_directory(), id));
  if (absl::IsNotFound(status)) {
    return absl::FailedPreconditionError(Cat(
        "snapshot ", id,
        " was removed before it was checked: its backup stood still for too long; run it again"));
  }
  KERF_RETURN_IF_ERROR(status);
  KERF_RETURN_IF_ERROR(SyncDirectory(store.pending_directory()));
  return Annotate(store.NoteSnapshot(snapshot),
                  Cat("snapshot ", id, " is whole, and could not be noted in the manifest"));
}

absl::Status WithdrawPending(const Store& store, const std::string& id) {
  const std::string path = Store::SnapshotPath(store.pending_directory(), id);
  const absl::Status status = RemoveFile(path);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return SyncDirectory(store.pending_directory());
}

absl::StatusOr<Roots> ListRoots(const Store& store) {
  // In this order: one that leaves the first list meanwhile is in the second one before.
  Roots roots;
  KERF_ASSIGN_OR_RETURN(roots.pending, store.ListPending());
  KERF_ASSIGN_OR_RETURN(roots.checked, store.ListSnapshots());
  KERF_ASSIGN_OR_RETURN(roots.forgotten, store.ListForgotten());
  return roots;
}

absl::Status CheckRootsAreComplete(const Store& store, const Roots& roots) {
  for (const StoreFlaw& flaw : FindFlaws(store.directory())) {
    if (flaw.path == store.manifest().directory()) return flaw.status;
  }
  return CheckNoneIsMissing(roots.checked);
}

}  // namespace kerf::agent
