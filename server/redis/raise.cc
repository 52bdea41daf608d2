#include "server/redis/raise.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/index/codec.h"
#include "server/index/rules.h"
#include "server/redis/answers.h"
#include "server/redis/bucket_reads.h"
#include "server/redis/every_master.h"
#include "server/redis/head_scripts.h"
#include "server/redis/heads.h"
#include "server/redis/repository_state.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"
#include "server/redis/walk.h"

namespace kerf {
namespace {

class Raise {
 public:
  Raise(RedisClient& client, RedisRepositories& repositories, RedisRepository& repository,
        std::uint64_t epoch, int replica_count)
      : client_(client),
        repositories_(repositories),
        repository_(repository),
        epoch_(epoch),
        replica_count_(replica_count) {}

  Task<absl::StatusOr<std::uint64_t>> Run(std::uint64_t min_before) {
    std::uint64_t before = std::numeric_limits<std::uint64_t>::max();
    for (int round = 0; round < kMaxConflicts; ++round) {
      // An epoch that a call before this one has raised counts when the replicas have it.
      auto state = co_await repositories_.ReadOrWrite(repository_);
      if (!state.ok()) co_return state.status();
      auto totals = co_await Look(*state);
      if (!totals.ok()) co_return totals.status();
      const std::uint64_t lowest = totals->lowest_epoch;
      // Those that an earlier round has raised say nothing about what was.
      before = std::min(before, lowest);
      if (lowest < min_before) co_return lowest;
      absl::Status status = absl::OkStatus();
      if (round == 0) status = index_rules::CheckAdvance(before, epoch_);
      if (!status.ok()) co_return status;
      if (state->reset_epoch > epoch_) {
        co_return index_rules::CheckNotClosed(index_rules::kClosedEpoch);
      }
      const std::uint64_t highest = std::max(totals->highest_epoch, state->highest_epoch());
      if (highest > epoch_) co_return index_rules::CheckAdvance(highest, epoch_);
      auto is_done = co_await End(*state, *totals);
      if (!is_done.ok()) co_return is_done.status();
      if (*is_done) {
        status = co_await repositories_.WriteIfNeeded(repository_);
        if (!status.ok()) co_return status;
        co_return before;
      }
      status = co_await Go(*state, lowest);
      if (!status.ok()) co_return status;
    }
    co_return absl::UnavailableError("the epochs in Redis change faster than they can be raised");
  }

 private:
  // Buckets that are made from now on get this epoch.
  bool IsTold(const RepositoryState& state) const { return state.highest_epoch() == epoch_; }
  static bool HasHeads(const RepositoryState& state) { return state.layout == RedisLayout::kHeads; }
  // Also where somebody who knows no heads has written the version.
  bool MayHaveHeads(const RepositoryState& state) const {
    return HasHeads(state) || repository_.has_heads.load();
  }

  Task<absl::StatusOr<WalkedTotals>> Look(const RepositoryState& state) {
    if (!HasHeads(state)) {
      auto walked = co_await WalkAll(client_, repository_, state, replica_count_);
      if (walked.ok() && walked->has_heads) repository_.has_heads.store(true);
      co_return walked;
    }
    // Always below the same path: what is lost there is seen until it is made.
    auto bases = co_await LookAtHeads(client_, repository_, state, path_, replica_count_);
    if (!bases.ok()) co_return bases.status();
    bases_ = *std::move(bases);
    co_return TotalsOf(bases_);
  }

  // Whether all have the epoch. In the later layouts that is so once `m:{R}` says it, in the same
  // step as which base buckets were there: those may not be missing from then on.
  Task<absl::StatusOr<bool>> End(const RepositoryState& state, const WalkedTotals& totals) {
    // What was raised by a call that has died is looked at again behind a wait of this one.
    const bool has_waited = has_raised_ || !MayHaveHeads(state);
    const bool have_all = has_waited && totals.lowest_begun_epoch == epoch_;
    if (!state.makes_when_needed()) co_return have_all;
    if (!IsTold(state) || totals.lowest_begun_epoch < epoch_) co_return false;
    if (state.epoch == epoch_ && !has_raised_) co_return true;
    if (!has_waited) co_return false;
    co_return co_await repositories_.Change(repository_, EndEpoch(state, epoch_, totals.there),
                                            /*taken_when_full=*/true);
  }

  // Begins to tell the epoch, or goes on. Those who were about to make a bucket with an earlier one
  // are known to the next round; who comes later makes it with this one.
  Task<absl::Status> Go(const RepositoryState& state, std::uint64_t lowest) {
    if (state.makes_when_needed() && !IsTold(state)) {
      const auto begun = co_await repositories_.Change(repository_, BeginEpoch(state, epoch_),
                                                       /*taken_when_full=*/true);
      if (!begun.ok()) co_return begun.status();
      if (!*begun) co_return absl::OkStatus();
    }
    has_raised_ = true;
    absl::Status status = absl::OkStatus();
    if (HasHeads(state)) {
      status = co_await RaiseHeads();
    } else {
      status = co_await RaiseAll(state, lowest);
    }
    if (!status.ok() || !MayHaveHeads(state)) co_return status;
    // A bucket that comes back is believed by its head. So what was removed before the epoch was
    // told comes back no more, wherever it was moved from. Then all are looked at again: a replica
    // that has taken over before this is seen by that, one that does so behind it has missed
    // nothing.
    co_return co_await WaitForEveryMaster(client_, replica_count_);
  }

  // A head is raised as it was seen; whoever changes it meanwhile is seen by the next round, and so
  // is the loss of all that is below it.
  ScriptCall RaiseOf(std::uint32_t base, const BucketHead& head) const {
    const bool is_told_again = head.is_there() && head.epoch == epoch_;
    return {KeysOf(repository_.tag, base, ""),
            {head.value, EncodeHead(epoch_), index_codec::EncodeFollowing({epoch_, 0}),
             is_told_again ? "1" : "0", index_codec::EncodeEpoch({epoch_, 1})}};
  }
  // What is lost below a head that has the epoch is made with it.
  ScriptCall MakeOf(std::uint32_t base, std::string_view path, const BucketHead& head) const {
    return {
        KeysOf(repository_.tag, base, path),
        {"", index_codec::EncodeFollowing({epoch_, 0}), head.value, head.value, WithLoss(head)}};
  }
  Task<absl::Status> RaiseHeads() {
    std::vector<ScriptCall> raises;
    std::vector<ScriptCall> makes;
    std::vector<ScriptCall> follows;
    for (const LookedAtBase& looked_at : bases_) {
      if (!looked_at.headless.empty()) {
        // What is there gets a head of the epoch, and follows it. Of a head that had told this
        // epoch before it was lost, the buckets know what has been removed since.
        std::uint64_t removed_count = 0;
        for (const WalkedBucket& bucket : looked_at.headless) {
          if (bucket.own.epoch >= epoch_) removed_count += bucket.own.removed_count;
        }
        follows.push_back(FollowCallOf(repository_, looked_at.headless, EncodeHead(epoch_),
                                       removed_count > 0 ? Cat(removed_count) : ""));
      } else if (!looked_at.is_begun || (looked_at.head.is_there() && looked_at.epoch >= epoch_)) {
        continue;
      } else if (looked_at.head.value != EncodeHead(epoch_)) {
        raises.push_back(RaiseOf(looked_at.base, looked_at.head));
      } else {
        makes.push_back(MakeOf(looked_at.base, looked_at.missing_path, looked_at.head));
      }
    }
    absl::Status status = co_await Run(redis_scripts::kRaise, std::move(raises));
    if (status.ok()) status = co_await Run(redis_scripts::kChange, std::move(makes));
    if (status.ok()) status = co_await Run(redis_scripts::kFollow, std::move(follows));
    co_return status;
  }

  Task<absl::Status> Run(std::string_view script, std::vector<ScriptCall> calls) {
    RedisReplies replies = co_await RunScript(client_, script, std::move(calls), replica_count_);
    for (const auto& reply : replies) {
      if (!reply.ok() || (reply->kind != RedisReply::Kind::kInteger && !IsArrayOf(reply, 2))) {
        co_return NotUnderstood("raising an epoch", reply);
      }
    }
    co_return absl::OkStatus();
  }

  // Raises the epoch of those buckets that are behind and that nobody changes meanwhile; ends at
  // one that has gone back since all were seen to be at `lowest`, at least: once raised, nobody
  // could tell. What is begun and not there is made: whoever wants to make it comes too late.
  Task<absl::Status> RaiseAll(const RepositoryState& state, std::uint64_t lowest) {
    const std::string wanted = index_codec::EncodeNumber(epoch_);
    WalkSteps steps(0, repository_.base_count());
    while (steps.Next()) {
      auto walked =
          co_await WalkBuckets(client_, repository_, state, steps.begin(), steps.end(), 0);
      if (!walked.ok()) co_return walked.status();
      steps.Saw(walked->size());
      std::vector<ScriptCall> calls;
      std::vector<ScriptCall> head_calls;
      for (const WalkedBucket& bucket : *walked) {
        if (bucket.epoch < lowest) co_return absl::OkStatus();
        const bool is_missing = bucket.epoch_value.empty();
        if (!bucket.is_begun || (!is_missing && bucket.epoch >= epoch_)) continue;
        if (bucket.head.is_there()) {
          // Somebody who knows no heads has written the version.
          if (bucket.head.value != EncodeHead(epoch_)) {
            head_calls.push_back(RaiseOf(bucket.base, bucket.head));
          } else if (is_missing) {
            calls.push_back(MakeOf(bucket.base, bucket.path, bucket.head));
          }
          continue;
        }
        if (is_missing && !state.makes_when_needed()) ++repository_.writes_wanted;
        const bool follows = index_codec::IsFollowing(bucket.epoch_value);
        calls.push_back(
            {KeysToChange(repository_.tag, bucket.base, bucket.path, is_missing || follows),
             {bucket.epoch_value, wanted, "", "", ""}});
      }
      absl::Status status = co_await Run(redis_scripts::kRaise, std::move(head_calls));
      if (status.ok()) status = co_await Run(redis_scripts::kChange, std::move(calls));
      if (!status.ok()) co_return status;
    }
    co_return absl::OkStatus();
  }

  RedisClient& client_;
  RedisRepositories& repositories_;
  RedisRepository& repository_;
  const std::uint64_t epoch_;
  const int replica_count_;
  const std::string path_ = AnyPath();
  // As they were looked at last.
  std::vector<LookedAtBase> bases_;
  bool has_raised_ = false;
};

}  // namespace

Task<absl::StatusOr<std::uint64_t>> RaiseEpoch(RedisClient& client, RedisRepositories& repositories,
                                               RedisRepository& repository, std::uint64_t epoch,
                                               std::uint64_t min_before, int replica_count) {
  Raise raise(client, repositories, repository, epoch, replica_count);
  co_return co_await raise.Run(min_before);
}

}  // namespace kerf
