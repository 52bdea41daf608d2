#include "server/redis/raise.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "server/index/codec.h"
#include "server/index/rules.h"
#include "server/redis/answers.h"
#include "server/redis/bucket_reads.h"
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
      auto totals = co_await WalkAll(client_, repository_, *state, replica_count_);
      if (!totals.ok()) co_return totals.status();
      const std::uint64_t lowest = totals->lowest_epoch;
      // Those that an earlier round has raised say nothing about what was.
      before = std::min(before, lowest);
      if (lowest < min_before) co_return lowest;
      absl::Status status = absl::OkStatus();
      if (round == 0) status = index_rules::CheckAdvance(before, epoch_);
      if (!status.ok()) co_return status;
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
  static bool IsLazy(const RepositoryState& state) { return state.layout == RedisLayout::kLazy; }
  // Buckets that are made from now on get this epoch.
  bool IsTold(const RepositoryState& state) const { return state.highest_epoch() == epoch_; }

  // Whether all have the epoch. In the later layout that is so once `m:{R}` says it, in the same
  // step as which base buckets were there: those may not be missing from then on.
  Task<absl::StatusOr<bool>> End(const RepositoryState& state, const WalkedTotals& totals) {
    if (!IsLazy(state)) co_return totals.lowest_epoch == epoch_;
    if (!IsTold(state) || totals.lowest_begun_epoch < epoch_) co_return false;
    if (state.epoch == epoch_ && !has_raised_) co_return true;
    co_return co_await repositories_.Change(repository_, EndEpoch(state, epoch_, totals.there),
                                            /*taken_when_full=*/true);
  }

  // Begins to tell the epoch, or goes on. Those who were about to make a bucket with an earlier one
  // are known to the next round; who comes later makes it with this one.
  Task<absl::Status> Go(const RepositoryState& state, std::uint64_t lowest) {
    if (IsLazy(state) && !IsTold(state)) {
      const auto begun = co_await repositories_.Change(repository_, BeginEpoch(state, epoch_),
                                                       /*taken_when_full=*/true);
      if (!begun.ok()) co_return begun.status();
      if (!*begun) co_return absl::OkStatus();
    }
    has_raised_ = true;
    co_return co_await RaiseAll(state, lowest);
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
      for (const WalkedBucket& bucket : *walked) {
        if (bucket.epoch < lowest) co_return absl::OkStatus();
        const bool is_missing = bucket.epoch_value.empty();
        if (!bucket.is_begun || (!is_missing && bucket.epoch >= epoch_)) continue;
        if (is_missing && !IsLazy(state)) ++repository_.writes_wanted;
        calls.push_back(
            {KeysOf(repository_.tag, bucket.base, bucket.path), {bucket.epoch_value, wanted}});
      }
      RedisReplies replies =
          co_await RunScript(client_, redis_scripts::kChange, std::move(calls), replica_count_);
      for (const auto& reply : replies) {
        if (!IsArrayOf(reply, 2)) co_return NotUnderstood("raising an epoch", reply);
      }
    }
    co_return absl::OkStatus();
  }

  RedisClient& client_;
  RedisRepositories& repositories_;
  RedisRepository& repository_;
  const std::uint64_t epoch_;
  const int replica_count_;
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
