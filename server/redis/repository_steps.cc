#include "server/redis/repository_steps.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "server/index/codec.h"
#include "server/redis/answers.h"
#include "server/redis/bucket_reads.h"
#include "server/redis/buckets.h"
#include "server/redis/head_scripts.h"
#include "server/redis/heads.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"
#include "server/redis/send_all.h"
#include "server/redis/walk.h"

namespace kerf {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// What the script of a change is to be given so that a bucket has that epoch, also where it is as
// it should be: the replicas may lack what an earlier attempt has written. What is missing is made,
// and is no loss from then on. Its head, if there is one, has the epoch already.
ScriptCall ResetOf(const RedisRepository& repository, const WalkedBucket& bucket,
                   const BucketContent& content, std::uint64_t epoch,
                   const std::vector<FieldChange>& changes) {
  ScriptCall call;
  call.keys = KeysToChange(repository.tag, bucket.base, bucket.path,
                           !content.is_there() || content.follows || bucket.head.is_there());
  // By now the head has the new epoch, and the bucket may be behind that: what it has counted is of
  // the one before only if the head has counted any since that was told, or was not there.
  const bool counts = !bucket.head.is_there() || bucket.head_removed_count > 0 || !content.follows;
  const index_codec::EpochValue value{epoch, counts ? content.removed_count : 0};
  const bool follows = bucket.head.is_there();
  call.arguments = {content.epoch_value.value_or(""),
                    follows ? index_codec::EncodeFollowing(value) : index_codec::EncodeEpoch(value),
                    bucket.head.value, bucket.head.value, WithLoss(bucket.head)};
  for (const FieldChange& change : changes) {
    call.arguments.insert(call.arguments.end(), {change.field, change.expected, change.wanted});
  }
  return call;
}

bool IsThere(const WalkedBucket& bucket) { return !bucket.epoch_value.empty(); }

// The heads of the step's base buckets get that epoch, so that from then on nothing below follows
// them beyond it, and those that are to be made are, each with a bucket. Whether there were any
// that had another.
Task<absl::StatusOr<bool>> ResetHeads(RedisClient& client, const RedisRepository& repository,
                                      const RepositoryState& state,
                                      std::span<const WalkedBucket> walked, std::uint64_t epoch,
                                      int replica_count) {
  std::vector<ScriptCall> raises;
  std::vector<ScriptCall> follows;
  for (auto begin = walked.begin(); begin != walked.end();) {
    const BucketHead& head = begin->head;
    const auto end = std::find_if(begin, walked.end(), [&](const WalkedBucket& bucket) {
      return bucket.base != begin->base;
    });
    const std::span<const WalkedBucket> below(begin, end);
    begin = end;
    if (head.value == EncodeHead(epoch)) continue;
    if (!head.is_there() && state.layout != RedisLayout::kHeads) continue;
    if (!head.is_there() && std::any_of(below.begin(), below.end(), IsThere)) {
      std::uint64_t removed_count = 0;
      for (const WalkedBucket& bucket : below) removed_count += bucket.own.removed_count;
      follows.push_back(FollowCallOf(repository, below, EncodeHead(epoch),
                                     removed_count > 0 ? Cat(removed_count) : ""));
      continue;
    }
    raises.push_back({KeysOf(repository.tag, below.front().base, ""),
                      {head.value, EncodeHead(epoch), index_codec::EncodeFollowing({epoch, 0}), "1",
                       EncodeHead(epoch)}});
  }
  const bool are_any = !raises.empty() || !follows.empty();
  RedisReplies replies =
      co_await RunScript(client, redis_scripts::kRaise, std::move(raises), replica_count);
  RedisReplies more =
      co_await RunScript(client, redis_scripts::kFollow, std::move(follows), replica_count);
  std::move(more.begin(), more.end(), std::back_inserter(replies));
  for (const auto& reply : replies) {
    if (!reply.ok() || reply->kind != RedisReply::Kind::kInteger) {
      co_return NotUnderstood("resetting an epoch", reply);
    }
  }
  co_return are_any;
}

// Where a step goes on: base buckets are done as a whole, that of `after` too if it is its end.
std::uint32_t FirstBaseOf(const RedisRepository& repository, const std::optional<Digest>& after) {
  if (!after.has_value()) return 0;
  const std::uint32_t base = BaseOf(*after, repository.base_bits);
  return *after == LastOf(repository.id, base, repository.base_bits) ? base + 1 : base;
}

struct SteppedEntries {
  std::uint64_t seen_count = 0;
  std::uint64_t changed_count = 0;
};

// Removes the buckets of the step's base buckets, from so many replicas, too.
Task<absl::StatusOr<SteppedEntries>> DropBuckets(RedisClient& client,
                                                 const RedisRepository& repository,
                                                 WalkSteps& steps, int replica_count) {
  std::vector<ScriptCall> calls;
  for (std::uint32_t base = steps.begin(); base < steps.end(); ++base) {
    calls.push_back({KeysOf(repository.tag, base, ""), {}});
  }
  RedisReplies replies =
      co_await RunScript(client, redis_scripts::kDrop, std::move(calls), replica_count);
  SteppedEntries stepped;
  std::size_t bucket_count = 0;
  for (const auto& reply : replies) {
    if (!IsArrayOf(reply, 2)) co_return NotUnderstood("removing buckets", reply);
    bucket_count += static_cast<std::size_t>(reply->elements[0].integer);
    stepped.changed_count += static_cast<std::uint64_t>(reply->elements[1].integer);
  }
  steps.Saw(bucket_count);
  stepped.seen_count = stepped.changed_count;
  co_return stepped;
}

// Gives the step's buckets that epoch, and their entries of later ones that one too, each bucket at
// one moment. Those that are begun, or lost, and not there are made with it: whoever is about to
// make one comes too late. `state` is of that epoch.
Task<absl::StatusOr<SteppedEntries>> ResetBuckets(RedisClient& client, RedisRepository& repository,
                                                  const RepositoryState& state, WalkSteps& steps,
                                                  std::uint64_t epoch, int replica_count) {
  SteppedEntries stepped;
  for (int round = 0; round < kMaxConflicts; ++round) {
    auto walked = co_await WalkBuckets(client, repository, state, steps.begin(), steps.end(), 0);
    if (!walked.ok()) co_return walked.status();
    if (round == 0) steps.Saw(walked->size());
    std::erase_if(*walked, [](const WalkedBucket& bucket) { return !bucket.is_begun; });
    const auto were_any =
        co_await ResetHeads(client, repository, state, *walked, epoch, replica_count);
    if (!were_any.ok()) co_return were_any.status();
    if (*were_any) continue;
    RedisReplies replies = co_await ReadWhole(client, repository, *walked);
    bool is_done = true;
    stepped.seen_count = 0;
    std::vector<ScriptCall> calls;
    std::vector<std::uint64_t> changed;
    for (std::size_t at = 0; at < replies.size(); ++at) {
      const WalkedBucket& bucket = (*walked)[at];
      auto whole = WholeOf(repository, replies[at], std::nullopt);
      if (!whole.ok()) co_return whole.status();
      // It has been split, or made, meanwhile.
      if (whole->content.epoch_value.has_value() == bucket.epoch_value.empty()) {
        is_done = false;
        continue;
      }
      whole->content.head = bucket.head;
      if (bucket.epoch_value.empty() && state.layout == RedisLayout::kWhole) {
        ++repository.writes_wanted;
      }
      stepped.seen_count += whole->fields.size();
      auto changes = PlanBucketReset(whole->content, whole->fields, epoch);
      if (!changes.ok()) co_return changes.status();
      calls.push_back(ResetOf(repository, bucket, whole->content, epoch, *changes));
      changed.push_back(changes->size());
    }
    RedisReplies written =
        co_await RunScript(client, redis_scripts::kChange, std::move(calls), replica_count);
    for (std::size_t at = 0; at < written.size(); ++at) {
      if (!IsArrayOf(written[at], 2)) co_return NotUnderstood("resetting an epoch", written[at]);
      const bool is_written = written[at]->elements[0].integer != 0;
      if (is_written) stepped.changed_count += changed[at];
      is_done &= is_written;
    }
    if (is_done) co_return stepped;
  }
  co_return absl::UnavailableError("too many write to the same entries in Redis at once");
}

// `m:{R}` says the epoch from the first step on: buckets that are made beside it get that one.
Task<absl::Status> BeginReset(RedisRepositories& repositories, const RedisRepository& repository,
                              std::uint64_t epoch) {
  for (int turn = 0; turn < kMaxConflicts; ++turn) {
    const auto state = co_await repositories.ReadOrWrite(repository);
    if (!state.ok()) co_return state.status();
    if (!state->makes_when_needed()) co_return absl::OkStatus();
    const auto reset = co_await repositories.Change(repository, ResetTo(*state, epoch),
                                                    /*taken_when_full=*/true);
    if (!reset.ok()) co_return reset.status();
    if (*reset) co_return absl::OkStatus();
  }
  co_return absl::UnavailableError("the epochs in Redis change faster than they can be reset");
}

// And at last which base buckets are there, as where an epoch is told (raise.cc). Not if somebody
// has told another one meanwhile: then that one's.
Task<absl::Status> EndReset(RedisClient& client, RedisRepositories& repositories,
                            const RedisRepository& repository, std::uint64_t epoch,
                            int replica_count) {
  const auto state = co_await repositories.Read(repository, replica_count);
  if (!state.ok()) co_return state.status();
  if (!state->makes_when_needed() || state->highest_epoch() != epoch) {
    co_return absl::OkStatus();
  }
  const auto totals = co_await TotalsNow(client, repository, *state, replica_count);
  if (!totals.ok()) co_return totals.status();
  const auto ended = co_await repositories.Change(
      repository, EndEpoch(*state, epoch, totals->there), /*taken_when_full=*/true);
  co_return ended.status();
}

}  // namespace

Task<absl::StatusOr<StepResult>> DropRepository(RedisClient& client,
                                                RedisRepositories& repositories, RepositoryId id,
                                                std::optional<Digest> after, std::size_t limit,
                                                int replica_count) {
  StepResult result;
  // Its place may be another's.
  const auto found = co_await repositories.Peek(id);
  if (!found.ok()) co_return found.status();
  const RedisRepository& gone = **found;
  // Once: whoever makes it again beside this keeps it.
  absl::Status status = absl::OkStatus();
  if (!after.has_value()) status = co_await repositories.Unmake(id);
  if (!status.ok()) co_return status;
  // How its buckets are named, if that is unusual, nothing says any more: all go at once.
  if (gone.base_bits != repositories.first_base_bits()) limit = kNoLimit;
  WalkSteps steps(FirstBaseOf(gone, after), gone.base_count());
  while (result.changed_count < limit && steps.Next()) {
    const auto stepped = co_await DropBuckets(client, gone, steps, replica_count);
    if (!stepped.ok()) co_return stepped.status();
    result.changed_count += stepped->changed_count;
  }
  if (steps.end() < gone.base_count()) {
    result.last = LastOf(id, steps.end() - 1, gone.base_bits);
    co_return result;
  }
  // Buckets that somebody was about to make when it began.
  const auto state = co_await repositories.Read(gone, 0);
  if (!state.ok()) co_return state.status();
  WalkSteps again(0, state->layout == RedisLayout::kNone ? gone.base_count() : 0);
  while (again.Next()) {
    const auto stepped = co_await DropBuckets(client, gone, again, replica_count);
    if (!stepped.ok()) co_return stepped.status();
    result.changed_count += stepped->changed_count;
  }
  status = co_await repositories.Delist(id);
  if (!status.ok()) co_return status;
  co_return result;
}

Task<absl::StatusOr<StepResult>> ResetRepository(RedisClient& client,
                                                 RedisRepositories& repositories,
                                                 RedisRepository& repository, std::uint64_t epoch,
                                                 std::optional<Digest> after, std::size_t limit,
                                                 int replica_count) {
  StepResult result;
  absl::Status status = absl::OkStatus();
  if (!after.has_value()) status = co_await BeginReset(repositories, repository, epoch);
  if (!status.ok()) co_return status;
  // Behind that: which buckets somebody may be about to make with another epoch.
  const auto state = co_await repositories.Read(repository, replica_count);
  if (!state.ok()) co_return state.status();
  WalkSteps steps(FirstBaseOf(repository, after), repository.base_count());
  std::uint64_t seen_count = 0;
  while (seen_count < limit && steps.Next()) {
    const auto stepped =
        co_await ResetBuckets(client, repository, *state, steps, epoch, replica_count);
    if (!stepped.ok()) co_return stepped.status();
    seen_count += stepped->seen_count;
    result.changed_count += stepped->changed_count;
  }
  if (steps.end() < repository.base_count()) {
    result.last = LastOf(repository.id, steps.end() - 1, repository.base_bits);
  } else {
    status = co_await EndReset(client, repositories, repository, epoch, replica_count);
  }
  if (status.ok()) status = co_await repositories.WriteIfNeeded(repository);
  if (!status.ok()) co_return status;
  co_return result;
}

}  // namespace kerf
