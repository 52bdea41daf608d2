#include "server/redis/forget_older.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/index/codec.h"
#include "server/index/rules.h"
#include "server/redis/answers.h"
#include "server/redis/bucket_reads.h"
#include "server/redis/buckets.h"
#include "server/redis/head_scripts.h"
#include "server/redis/heads.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"

namespace kerf {
namespace {

// Of kChange's: what the bucket's `e` becomes.
constexpr std::size_t kNewEpochArgument = 1;

bool IsNotBegun(const WalkedBucket& bucket) { return !bucket.is_begun; }

// Whether a bucket is what it was, or has only come to follow its head since: behind an epoch the
// first commit or lookup of each does that, and nothing of it has been removed then.
bool IsStill(const WalkedBucket& now, const WalkedBucket& then) {
  if (now.base != then.base || now.path != then.path || now.head.value != then.head.value) {
    return false;
  }
  if (now.epoch_value == then.epoch_value) return true;
  if (!now.head.is_there()) return false;
  const auto followed = index_codec::ParseFollowing(then.epoch_value);
  return followed.ok() && followed->epoch < now.head.epoch &&
         now.epoch_value == index_codec::EncodeFollowing({now.head.epoch, 0});
}

class Step {
 public:
  Step(RedisClient& client, RedisRepository& repository, const RepositoryState& state,
       WalkSteps& steps, std::optional<Digest> after, std::uint64_t epoch, int replica_count)
      : client_(client),
        repository_(repository),
        state_(state),
        steps_(steps),
        after_(after),
        epoch_(epoch),
        replica_count_(replica_count) {}

  Task<absl::StatusOr<std::size_t>> Run(ForgetResult& forgotten) {
    for (int round = 0; round < kMaxConflicts; ++round) {
      auto walked = co_await Walk(0);
      if (!walked.ok()) co_return walked.status();
      if (round == 0) steps_.Saw(walked->size());
      ForgetResult looked_at{0, kNoEpoch, 0};
      // There is nothing to read of what nobody has begun.
      for (const WalkedBucket& bucket : *walked) {
        if (!IsNotBegun(bucket)) continue;
        const absl::Status status = index_rules::CheckNotAhead(epoch_, bucket.epoch);
        if (!status.ok()) co_return status;
        looked_at.epoch = std::min(looked_at.epoch, bucket.epoch);
      }
      std::erase_if(*walked, IsNotBegun);
      std::size_t seen_count = 0;
      const auto is_removed = co_await Remove(*walked, seen_count, looked_at, forgotten);
      if (!is_removed.ok()) co_return is_removed.status();
      if (!*is_removed) continue;
      const auto is_still_so = co_await LookAgain(*walked, looked_at);
      if (!is_still_so.ok()) co_return is_still_so.status();
      if (!*is_still_so) continue;
      forgotten.removed_count += looked_at.removed_count;
      forgotten.epoch = std::min(forgotten.epoch, looked_at.epoch);
      co_return seen_count;
    }
    co_return absl::UnavailableError("too many write to the same entries in Redis at once");
  }

 private:
  Task<absl::StatusOr<std::vector<WalkedBucket>>> Walk(int replica_count) {
    co_return co_await WalkBuckets(client_, repository_, state_, steps_.begin(), steps_.end(),
                                   replica_count);
  }

  // Steps begin with the base bucket of `after`.
  bool SeesAllOf(std::uint32_t base) const {
    return !after_.has_value() || BaseOf(*after_, repository_.base_bits) != base;
  }

  // What a bucket that was read is to the walk before.
  void Join(const WalkedBucket& bucket, BucketContent& content) const {
    content.head = bucket.head;
    // Of what is missing, or whose head is.
    content.epoch_without = content.is_there() ? state_.EpochWithout(bucket.base) : bucket.epoch;
  }

  // False if one of the buckets was changed meanwhile. Else they have `epoch_value` now.
  Task<absl::StatusOr<bool>> Remove(std::vector<WalkedBucket>& walked, std::size_t& seen_count,
                                    ForgetResult& looked_at, ForgetResult& forgotten) {
    RedisReplies replies = co_await ReadWhole(client_, repository_, walked);
    bool is_done = true;
    std::vector<ScriptCall> calls;
    std::vector<std::uint64_t> removed;
    for (std::size_t at = 0; at < replies.size(); ++at) {
      WalkedBucket& bucket = walked[at];
      auto whole = WholeOf(repository_, replies[at], after_);
      if (!whole.ok()) co_return whole.status();
      BucketContent& content = whole->content;
      // It has been split, or made, meanwhile.
      if (content.is_there() == bucket.epoch_value.empty()) is_done = false;
      Join(bucket, content);
      seen_count += whole->fields.size();
      // Of what its head has not seen nothing is left that only the head would vouch for. That
      // takes all of it.
      const bool rejoins = content.is_apart() && SeesAllOf(bucket.base);
      const std::uint64_t epoch = rejoins ? std::max(epoch_, content.head->epoch) : epoch_;
      auto changes = PlanBucketForgetOlder(content, whole->fields, epoch);
      if (!changes.ok()) co_return changes.status();
      looked_at.removed_count += RemovedSince(content) + RemovedBy(*changes);
      looked_at.epoch = std::min(looked_at.epoch, EpochToAnswer(content));
      bucket.epoch_value = content.epoch_value.value_or("");
      if (changes->empty() && !rejoins) continue;
      ScriptCall& call =
          calls.emplace_back(ChangeOf(repository_, bucket.base, bucket.path, content, *changes));
      if (rejoins) call.arguments[kNewEpochArgument] = EpochToRejoin(content, *changes);
      removed.push_back(RemovedBy(*changes));
      bucket.epoch_value = call.arguments[kNewEpochArgument];
    }
    RedisReplies written =
        co_await RunScript(client_, redis_scripts::kChange, std::move(calls), replica_count_);
    for (std::size_t at = 0; at < written.size(); ++at) {
      if (!IsArrayOf(written[at], 2)) co_return NotUnderstood("removing entries", written[at]);
      const bool is_written = written[at]->elements[0].integer != 0;
      if (is_written) forgotten.forgotten_count += removed[at];
      is_done &= is_written;
    }
    co_return is_done;
  }

  // Whether the step's buckets and heads are these, with as many removed from them as each says, on
  // the replicas too: what is missing may have been removed by another call whose WAIT failed, and
  // below a head only one step sees whether something has come back alone. Buckets that follow
  // their heads meanwhile are the same: else it would not end while others upload behind an epoch.
  Task<absl::StatusOr<bool>> LookAgain(std::span<const WalkedBucket> expected,
                                       ForgetResult& looked_at) {
    const bool have_heads = std::any_of(expected.begin(), expected.end(),
                                        [](const auto& bucket) { return bucket.head.is_there(); });
    if (replica_count_ == 0 && !have_heads) co_return true;
    auto walked = co_await Walk(replica_count_);
    if (!walked.ok()) co_return walked.status();
    std::erase_if(*walked, IsNotBegun);
    const bool are_same =
        std::equal(walked->begin(), walked->end(), expected.begin(), expected.end(), IsStill);
    if (!are_same) co_return false;
    co_return co_await CountAnew(*walked, looked_at);
  }

  // Below a head there are as many entries as it says, and a bucket on each path. If not, something
  // is lost, or has come back alone, and nobody knows what that knew: the head says so from then
  // on, and how many there are. False if somebody was faster.
  Task<absl::StatusOr<bool>> CountAnew(std::span<const WalkedBucket> walked,
                                       ForgetResult& looked_at) {
    std::vector<ScriptCall> calls;
    for (auto begin = walked.begin(); begin != walked.end();) {
      const BucketHead& head = begin->head;
      const auto end = std::find_if(begin, walked.end(), [&](const WalkedBucket& bucket) {
        return bucket.base != begin->base;
      });
      const std::span<const WalkedBucket> below(begin, end);
      begin = end;
      if (!head.is_there()) continue;
      std::uint64_t entry_count = 0;
      bool is_whole = true;
      for (const WalkedBucket& bucket : below) {
        entry_count += bucket.entry_count;
        is_whole = is_whole && !bucket.epoch_value.empty();
      }
      if (is_whole && entry_count == below.front().head_entry_count) continue;
      calls.push_back(FollowCallOf(repository_, below, WithLoss(head)));
    }
    if (!calls.empty()) looked_at.epoch = 0;
    RedisReplies replies =
        co_await RunScript(client_, redis_scripts::kFollow, std::move(calls), replica_count_);
    for (const auto& reply : replies) {
      if (!reply.ok() || reply->kind != RedisReply::Kind::kInteger) {
        co_return NotUnderstood("counting entries", reply);
      }
      if (reply->integer != 1) co_return false;
    }
    co_return true;
  }

  RedisClient& client_;
  RedisRepository& repository_;
  const RepositoryState& state_;
  WalkSteps& steps_;
  const std::optional<Digest> after_;
  const std::uint64_t epoch_;
  const int replica_count_;
};

}  // namespace

Task<absl::StatusOr<std::size_t>> ForgetOlderIn(RedisClient& client, RedisRepository& repository,
                                                const RepositoryState& state, WalkSteps& steps,
                                                std::optional<Digest> after, std::uint64_t epoch,
                                                int replica_count, ForgetResult& forgotten) {
  Step step(client, repository, state, steps, after, epoch, replica_count);
  co_return co_await step.Run(forgotten);
}

}  // namespace kerf
