#include "client/store/collect/epoch_round.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/snapshots/collector_lock.h"

namespace kerf::agent {
namespace {

// How far a collection raises the epoch: once to fence late commits off, once when all is
// forgotten.
constexpr std::uint64_t kEpochsPerCollection = 2;
// How often the index is asked whether it still knows what it was told to forget.
constexpr int kMaxForgetRounds = 4;
// How often the index may go back in time while it is told one epoch.
constexpr int kMaxSetbacks = 16;
// In how many steps an index is taken to the store's epoch: one is enough for any that nobody has
// meddled with, and the server lets no more than a few through at a time.
constexpr std::uint64_t kMaxFenceSteps = 16;

// How many it takes from `reached` to `fence`, which lies behind it.
std::uint64_t FenceSteps(std::uint64_t reached, std::uint64_t fence) {
  const std::uint64_t first = reached == 0 ? kMaxFirstIndexEpoch : kMaxIndexEpochStep;
  if (fence - reached <= first) return 1;
  return 2 + (fence - reached - first - 1) / kMaxIndexEpochStep;
}

}  // namespace

EpochRound::EpochRound(const Store& store, CollectionIndex& server, IndexSteps steps,
                       std::vector<std::string>* findings)
    : store_(store), server_(server), steps_(std::move(steps)), findings_(*findings) {}

absl::Status EpochRound::Lock() {
  return store_.reserve().Spend([this]() -> absl::Status {
    KERF_ASSIGN_OR_RETURN(lock_, LockCollector(store_.directory()));
    return absl::OkStatus();
  });
}

absl::Status EpochRound::ReadEpochs(bool with_index) {
  KERF_ASSIGN_OR_RETURN(const std::uint64_t store_epoch, store_.ReadEpoch());
  server_is_asked_ = with_index;
  if (with_index) {
    KERF_ASSIGN_OR_RETURN(index_epoch_, server_.ReadEpoch());
  }
  first_epoch_ = store_epoch;
  // An index that has lost nothing knows this epoch: the collection that raised it has told it.
  min_index_epoch_ = store_epoch;
  const absl::StatusOr<std::optional<CollectionPlan>> plan = ReadCollectionPlan(store_.plan_path());
  bool plan_says_behind = false;
  if (plan.ok() && plan->has_value()) {
    first_epoch_ = std::max(first_epoch_, (*plan)->target_epoch);
    plan_says_behind = index_is_behind_ = (*plan)->index_is_behind;
    if ((*plan)->min_index_epoch.has_value()) {
      min_index_epoch_ = *(*plan)->min_index_epoch;
    } else if (store_epoch < (*plan)->target_epoch) {
      // It has deleted nothing: it died before it raised the epoch for the second time.
      min_index_epoch_ = (*plan)->target_epoch - kEpochsPerCollection;
    }
  } else if (absl::IsDataLoss(plan.status())) {
    // Whatever it was, its last epoch is no further away than this.
    first_epoch_ += kEpochsPerCollection;
    index_is_behind_ = true;
    findings_.push_back(std::string(MessageOf(plan.status())));
  } else if (!plan.ok()) {
    return plan.status();
  }
  // Nobody has told it of the first epoch, and nothing had been deleted then.
  if (min_index_epoch_ > 1 && index_epoch_ < min_index_epoch_) index_is_behind_ = true;
  if (with_index && plan.ok() && plan->has_value()) {
    // The epoch before the store's is void: no session of today believes an index of that. That an
    // index has gone back has to be written down before it is raised.
    if (!index_is_behind_) owed_epoch_ = store_epoch;
    if (index_is_behind_ && plan_says_behind) owed_epoch_ = store_epoch - 1;
  }
  KERF_RETURN_IF_ERROR(FollowIndex());
  epoch_ = first_epoch_ + kEpochsPerCollection;
  return absl::OkStatus();
}

std::string EpochRound::ResetAdvice() const {
  return Cat("have the server's operator set it right (`kerf repo reset-epoch --store ",
             store_.directory(), "`), and run `kerf index rebuild`");
}

// The store is told an epoch before the index is. If the index knows a later one, the store was set
// back to an older copy of itself: it goes on from the index's epoch, so that no epoch comes a
// second time, and nothing is trusted that the index has of the time that the store has lost.
absl::Status EpochRound::FollowIndex() {
  if (first_epoch_ > kMaxStoreEpoch) {
    return absl::FailedPreconditionError(
        Cat(store_.directory(), ": its epoch is ", first_epoch_, ", further than any collections ",
            "can have counted: the file epoch or gc/plan is damaged; bring it back from a copy"));
  }
  if (server_is_asked_ && index_epoch_ < fence_epoch() &&
      FenceSteps(index_epoch_, fence_epoch()) > kMaxFenceSteps) {
    return absl::FailedPreconditionError(
        Cat("the store is at epoch ", first_epoch_, " and the server's index at ", index_epoch_,
            ", further behind than it can be taken along; ", ResetAdvice()));
  }
  if (index_epoch_ <= first_epoch_) return absl::OkStatus();
  if (index_epoch_ > kMaxFollowedEpoch) {
    return absl::FailedPreconditionError(Cat("the server's index is at epoch ", index_epoch_,
                                             " and the store at ", first_epoch_,
                                             ": that is no epoch of this store; ", ResetAdvice()));
  }
  findings_.push_back(Cat("the store was at epoch ", first_epoch_, ", behind its index at ",
                          index_epoch_,
                          ": it was set back to an older copy; it goes on from there"));
  first_epoch_ = index_epoch_;
  index_is_behind_ = true;
  return absl::OkStatus();
}

// The store's epoch for the time of the fence: sessions of today do not believe an index that has
// gone back in time, though it is told the fence.
absl::Status EpochRound::RaiseStoreToFence() {
  return store_.WriteEpoch(index_is_behind_ ? fence_epoch() + 1 : fence_epoch());
}

absl::Status EpochRound::RaiseIndex(std::uint64_t& reached, std::uint64_t target,
                                    const std::function<absl::StatusOr<bool>()>& on_setback) {
  int setback_count = 0;
  while (reached < target) {
    const std::uint64_t step = reached == 0 ? kMaxFirstIndexEpoch : kMaxIndexEpochStep;
    const std::uint64_t next = reached + std::min(target - reached, step);
    KERF_ASSIGN_OR_RETURN(const std::uint64_t before, server_.AdvanceEpoch(next, reached));
    if (before >= reached) {
      reached = next;
      continue;
    }
    if (++setback_count > kMaxSetbacks) {
      return absl::UnavailableError("the server's index goes back in time again and again");
    }
    reached = before;
    KERF_ASSIGN_OR_RETURN(const bool goes_on, on_setback());
    if (!goes_on) break;
  }
  return absl::OkStatus();
}

// What is there behind it is what a round leaves that dies a step later. The epochs of the one that
// died are not used again all the same: sessions of them have read its plan, and that of this round
// may condemn more.
absl::Status EpochRound::PayWhatIsOwed() {
  const auto stop = [this]() -> absl::StatusOr<bool> {
    // As if it had been read now; what no plan says is written down before more is told.
    if (min_index_epoch_ > 1 && index_epoch_ < min_index_epoch_) index_is_behind_ = true;
    return false;
  };
  return RaiseIndex(index_epoch_, owed_epoch_, stop);
}

// Once the index is at the fence it looks like one that has lost nothing: that it has gone back is
// written down before it is raised.
absl::Status EpochRound::Fence() {
  return RaiseIndex(index_epoch_, fence_epoch(), [this]() -> absl::StatusOr<bool> {
    if (index_is_behind_) return true;
    index_is_behind_ = true;
    KERF_RETURN_IF_ERROR(WritePlan());
    KERF_RETURN_IF_ERROR(RaiseStoreToFence());
    return true;
  });
}

absl::Status EpochRound::PublishPlan(std::vector<PlannedPack> packs) {
  planned_ = std::move(packs);
  return WritePlan();
}

absl::Status EpochRound::PublishThatChunksGo() {
  min_index_epoch_ = epoch_;
  return WritePlan();
}

absl::Status EpochRound::WritePlan() {
  CollectionPlan plan;
  plan.target_epoch = epoch_;
  plan.index_is_behind = index_is_behind_;
  plan.min_index_epoch = min_index_epoch_;
  plan.packs = planned_;
  return store_.reserve().Spend(
      [&] { return WriteCollectionPlan(store_.plan_path(), store_.temporary_directory(), plan); });
}

absl::Status EpochRound::RaiseStoreEpoch() {
  ++epoch_;
  return store_.WriteEpoch(epoch_);
}

absl::Status EpochRound::RaiseStoreAgain() {
  return index_is_behind_ ? RaiseStoreEpoch() : store_.WriteEpoch(epoch_);
}

// The last epoch makes every entry that the index holds trusted again, so it must have forgotten
// the condemned ones by then. An index that loses its last writes (a failover) may have lost just
// that: it is asked once more behind the epoch, must have that epoch when it answers, and nobody
// may have removed one of them since it was told the epoch. So none was there then, and what the
// index loses later it loses together with the epoch, or has nothing of it.
absl::Status EpochRound::Advance() {
  for (int round = 0; !index_is_behind_ && round < kMaxForgetRounds; ++round) {
    const std::uint64_t min_before = epoch_ - 1;
    KERF_ASSIGN_OR_RETURN(const std::uint64_t before, server_.AdvanceEpoch(epoch_, min_before));
    // It was not told: what it has is UNVERIFIED.
    if (before < min_before) break;
    KERF_ASSIGN_OR_RETURN(const ForgottenChunks forgotten, steps_.forget());
    if (forgotten.NothingWasThere(epoch_)) return absl::OkStatus();
    // The epoch that the index was just told is void for sessions of a later one.
    KERF_RETURN_IF_ERROR(RaiseStoreEpoch());
  }
  return DistrustIndex();
}

absl::Status EpochRound::DistrustIndex() {
  findings_.push_back(
      "the index and the store were not of the same time; the index was told of all chunks of the "
      "store again");
  if (!index_is_behind_) {
    // Written down before it is told an epoch at which it may still name what is gone.
    index_is_behind_ = true;
    KERF_RETURN_IF_ERROR(WritePlan());
    KERF_RETURN_IF_ERROR(RaiseStoreEpoch());
  }
  return MakeIndexWhole();
}

// The chunks are committed in an epoch that the index has not been told. Until it is, all other
// entries are UNVERIFIED.
absl::Status EpochRound::MakeIndexWhole() {
  KERF_RETURN_IF_ERROR(steps_.commit_all(epoch_));
  return RemoveStale();
}

// ForgetOlder comes last: what anybody has removed before it is in its answer.
absl::StatusOr<ForgottenChunks> EpochRound::ForgetStale() {
  std::uint64_t gone_count = 0;
  if (steps_.forget_gone) {
    KERF_ASSIGN_OR_RETURN(gone_count, steps_.forget_gone(epoch_));
  }
  KERF_ASSIGN_OR_RETURN(ForgottenChunks stale, server_.ForgetOlder(fence_epoch()));
  stale.count += gone_count;
  removed_entry_count_ += stale.count;
  return stale;
}

// What sessions have committed since the fence is there: they had read the plan. All that is older
// and that commit_all has not found goes. That it has gone is seen at an epoch that no session of
// today believes, and only an index that has that epoch is told today's.
absl::Status EpochRound::RemoveStale() {
  for (int round = 0; round < kMaxForgetRounds; ++round) {
    KERF_RETURN_IF_ERROR(ForgetStale().status());
    const std::uint64_t void_epoch = epoch_ - 1;
    KERF_ASSIGN_OR_RETURN(const std::uint64_t before,
                          server_.AdvanceEpoch(void_epoch, fence_epoch()));
    if (before < fence_epoch()) break;
    KERF_ASSIGN_OR_RETURN(const ForgottenChunks forgotten, ForgetStale());
    if (forgotten.NothingWasThere(void_epoch)) {
      KERF_ASSIGN_OR_RETURN(const std::uint64_t seen_at, server_.AdvanceEpoch(epoch_, void_epoch));
      if (seen_at < void_epoch) break;
      index_is_behind_ = false;
      return absl::OkStatus();
    }
    KERF_RETURN_IF_ERROR(RaiseStoreEpoch());
  }
  // The next round tries again. What it has lost meanwhile may be what it was told before.
  return steps_.commit_all(epoch_);
}

absl::Status EpochRound::RemovePlan() { return RemoveCollectionPlan(store_.plan_path()); }

}  // namespace kerf::agent
