// The agent's side of collections that run beside a backup (docs/adr/0005-publish-then-check.md):
//
//   guard = CollectionGuard::Begin(store)      sessions are opened with guard.epoch()
//   ... upload; chunks in guard.Condemned(index) are stored anew, whatever the server says ...
//   loop: PublishPending(store, snapshot)
//         check = guard.Check(store, index, what the snapshot references)
//         if check.lost is empty: ConfirmPending and done
//         WithdrawPending; guard = check.next; store and commit check.lost again in sessions of
//         the new epoch, if that is all that is lost; else begin again
//
// An agent without a list of the store's chunks (PlacedChunks) asks Condemns of each place, and
// CheckByFooters in the place of Check.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/snapshots/roots.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

using DigestSet = absl::flat_hash_set<Digest, DigestHash>;

struct FinishCheck;

// What an agent has seen of collections at one moment. A plain value.
class CollectionGuard {
 public:
  // Reads the epoch, then the plan.
  static absl::StatusOr<CollectionGuard> Begin(const Store& store);

  // For the sessions that the agent opens from now on.
  std::uint64_t epoch() const { return epoch_; }

  // What a server has told a session of epoch() of its index (COL-81). Above epoch() a collection
  // has begun since Begin, whatever the store says: Check looks at everything.
  void NoteIndexEpoch(std::uint64_t index_epoch) {
    index_epoch_ = std::max(index_epoch_, index_epoch);
  }
  bool plan_present() const { return plan_.has_value(); }

  // Chunks that the store holds in places only that will be deleted. `index` must have been
  // refreshed after Begin.
  DigestSet Condemned(const ChunkIndex& index) const;

  // Chunks whose place, as `index` gives it, will be deleted: those that are condemned, and those
  // of which another copy is safe. Whoever committed that place would leave an index that names
  // what is gone. `index` must have been refreshed after Begin.
  DigestSet Distrusted(const ChunkIndex& index) const;

  // Whether the place will be deleted: nobody counts on it, and nobody commits it. Of a place that
  // was seen after Begin.
  bool Condemns(const ChunkPlace& place) const {
    return plan_.has_value() && plan_->Condemns(place);
  }

  // After the snapshot is pending. `visit` calls its argument with every chunk that the snapshot
  // references; it is not called if no collection has come near. Refreshes the index, and once more
  // for what it misses then.
  absl::StatusOr<FinishCheck> Check(
      const Store& store, ChunkIndex& index,
      const std::function<absl::Status(const ChunkVisitor&)>& visit) const;

  // The same, in memory that depends on neither the store nor the snapshot: reads the footers of
  // all packs, once for each `limits.max_chunk_count` chunks that are visited; `is_ended` as of
  // VisitDurablePacks.
  struct Limits {
    std::size_t max_chunk_count = 0;
    // More are counted only.
    std::size_t max_lost_count = 0;
  };
  absl::StatusOr<FinishCheck> CheckByFooters(
      const Store& store, const Limits& limits,
      const std::function<absl::Status(const ChunkVisitor&)>& visit,
      const std::function<bool()>& is_ended = {}) const;

 private:
  // Whether a collection has come near between this and `now`.
  bool MustLook(const CollectionGuard& now) const;

  std::uint64_t epoch_ = 0;
  // The highest that was noted; 0: none.
  std::uint64_t index_epoch_ = 0;
  std::optional<CollectionPlan> plan_;
};

struct FinishCheck {
  // Chunks that no pack holds or that will be deleted: Check lists each once. Empty: confirm the
  // snapshot.
  std::vector<ChunkRef> lost;
  // With those that CheckByFooters does not list.
  std::uint64_t lost_count = 0;
  // What the next round begins with.
  CollectionGuard next;
};

}  // namespace kerf::agent
