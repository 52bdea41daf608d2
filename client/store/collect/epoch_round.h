// How whoever holds the collector's lock takes the store and the server's index to a later epoch:
// the plan, the fence, and the cure of an index that has gone back in time (docs/adr/0005).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/index/collection_index.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// How far one AdvanceEpoch may raise the index, from 0 and from anywhere else
// (docs/spec/protocol.md).
inline constexpr std::uint64_t kMaxFirstIndexEpoch = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kMaxIndexEpochStep = std::uint64_t{1} << 20;
// An index whose epoch is past the store's is followed up to here: twice as far as anybody can take
// a new one at once, and from there on an epoch rises too slowly to get here in a lifetime.
inline constexpr std::uint64_t kMaxFollowedEpoch = std::uint64_t{1} << 41;
// No store counts that far, from wherever it goes on.
inline constexpr std::uint64_t kMaxStoreEpoch = 2 * kMaxFollowedEpoch;

// What a collection, or the rebuilding of an index, has just done. One that is stopped behind any
// of them leaves a store that is whole, and the next one goes on from there.
enum class CollectionStep {
  kLocked,
  kMarked,
  kPlanned,
  kEpochRaised,
  kFenced,
  kMarkedAgain,
  kForgotten,
  kMoved,
  kMovesCommitted,
  kEpochRaisedAgain,
  kAdvanced,
  kDeadDeleted,
  kDeleted,
  kPlanRemoved,
};

// Calls are made in the order of their declaration. Not thread-safe.
class EpochRound {
 public:
  // What its owner does in between.
  struct IndexSteps {
    // Commits to the index, in this epoch, all chunks that the store holds and will keep.
    std::function<absl::Status(std::uint64_t epoch)> commit_all;
    // Forgets the condemned chunks in the index. Only for Advance.
    std::function<absl::StatusOr<ForgottenChunks>()> forget;
    // Forgets every entry of a chunk that the store does not hold, whatever its epoch, and returns
    // how many there were. Without it only what is older than the fence goes: an entry of an epoch
    // that the store has lost, being set back to an older copy, is then kept and believed.
    std::function<absl::StatusOr<std::uint64_t>(std::uint64_t epoch)> forget_gone = nullptr;
  };

  // `findings` gets a line for all that was met and is not as it should be. All outlive the round.
  EpochRound(const Store& store, CollectionIndex& server, IndexSteps steps,
             std::vector<std::string>* findings);

  // FailedPrecondition if somebody else holds it. It is held for as long as the round lives.
  absl::Status Lock();
  bool has_lock() const { return lock_.valid(); }
  // Where store, index and the plan of one that has died are. FailedPrecondition if the index's
  // epoch is past kMaxFollowedEpoch, the store's past kMaxStoreEpoch, or the one so far behind the
  // other that the server does not let it be raised there.
  absl::Status ReadEpochs(bool with_index);
  // Tells the index what a round that has died had begun to tell it. Until that is done this one
  // must change nothing, or each that fails here would take the store an epoch further away from
  // an index that answers seldom (docs/adr/0022).
  absl::Status PayWhatIsOwed();
  // From now on nothing that the index has from before is believed.
  void Distrust() { index_is_behind_ = true; }

  // Tells agents what will go, and the next round what to know of this one if it dies. Durable on
  // return; may be called again.
  absl::Status PublishPlan(std::vector<PlannedPack> packs);
  // Raises the store's epoch to the fence, then the index's: commits of earlier sessions are
  // refused from then on.
  absl::Status RaiseStoreToFence();
  absl::Status Fence();
  // Raises the store's epoch for the second time.
  absl::Status RaiseStoreAgain();
  // Tells the index this epoch if it has forgotten what is condemned, or else makes it whole.
  absl::Status Advance();
  // Commits all chunks anew and removes from the index what is older, so that it names nothing that
  // is gone, whatever it was before; then it is believed again.
  absl::Status MakeIndexWhole();
  // Before anything is deleted that an index which has not heard of this round may name.
  absl::Status PublishThatChunksGo();
  absl::Status RemovePlan();

  // The store's at the end of the round.
  std::uint64_t epoch() const { return epoch_; }
  // The index could not be made whole, because it went back meanwhile: what it was not told of in
  // this round is UNVERIFIED.
  bool index_is_behind() const { return index_is_behind_; }
  // What MakeIndexWhole has removed from the index.
  std::uint64_t removed_entry_count() const { return removed_entry_count_; }

 private:
  // Up to `target`, as far as the server lets one call raise it at a time. A `reached` below what
  // it was is what the index went back to meanwhile; then on_setback says whether to go on.
  absl::Status RaiseIndex(std::uint64_t& reached, std::uint64_t target,
                          const std::function<absl::StatusOr<bool>()>& on_setback);
  absl::Status FollowIndex();
  // What people do about an index whose epoch is out of reach.
  std::string ResetAdvice() const;
  std::uint64_t fence_epoch() const { return first_epoch_ + 1; }
  absl::Status WritePlan();
  absl::Status RaiseStoreEpoch();
  absl::Status DistrustIndex();
  absl::StatusOr<ForgottenChunks> ForgetStale();
  absl::Status RemoveStale();

  const Store& store_;
  CollectionIndex& server_;
  const IndexSteps steps_;
  std::vector<std::string>& findings_;
  UniqueFd lock_;
  bool server_is_asked_ = false;
  std::uint64_t first_epoch_ = 0;
  std::uint64_t index_epoch_ = 0;
  std::uint64_t epoch_ = 0;
  // What a round that died owes the index; 0: nothing.
  std::uint64_t owed_epoch_ = 0;
  // An index of that epoch, or a later one, names no chunk that is gone.
  std::uint64_t min_index_epoch_ = 0;
  // It has gone back in time, or the store has: entries of it may name chunks that are gone.
  bool index_is_behind_ = false;
  // What was condemned when it was published first, also if it is published again.
  std::vector<PlannedPack> planned_;
  std::uint64_t removed_entry_count_ = 0;
};

}  // namespace kerf::agent
