// Snapshots that are published and not yet checked (docs/adr/0005-publish-then-check.md).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// Durable on return, and from then on a root for every collection. Not yet a snapshot for anybody
// else: whether its chunks are all there is for CollectionGuard::Check to say. A pending snapshot
// never changes; publish another one instead. The id is filled in if it is empty.
absl::Status PublishPending(const Store& store, store::v1::Snapshot& snapshot);

// Makes it a snapshot and notes it, durably. FailedPrecondition if it is not there any more: a
// collection that took its agent for dead has removed it.
absl::Status ConfirmPending(const Store& store, const store::v1::Snapshot& snapshot);

// Durable on return. OK if it is not there.
absl::Status WithdrawPending(const Store& store, const std::string& id);

// Everything that a collection must keep.
struct Roots {
  // Published and not checked. One that is renamed meanwhile may be in both lists.
  SnapshotList pending;
  SnapshotList checked;
  // Forgotten, and can be brought back.
  SnapshotList forgotten;
};

// Sees every snapshot that was published before the call and is still there at its end.
absl::StatusOr<Roots> ListRoots(const Store& store);

// DataLoss if a snapshot is gone that nobody has forgotten, or it cannot be known whether one is:
// then nothing may be deleted.
absl::Status CheckRootsAreComplete(const Store& store, const Roots& roots);

}  // namespace kerf::agent
