#include "server/redis/walk.h"

#include <tuple>
#include <utility>

#include "base/status.h"
#include "server/redis/answers.h"
#include "server/redis/head_answers.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"

namespace kerf {

namespace {

// As KERF_LUA_LONGEST has it.
static_assert(kMaxPathBits == 24);

// `reply` is of base bucket `base`.
absl::Status AddWalked(const RepositoryState& state, std::uint32_t base,
                       const absl::StatusOr<RedisReply>& reply,
                       std::vector<WalkedBucket>& buckets) {
  if (!reply.ok() || reply->kind != RedisReply::Kind::kArray ||
      reply->elements.size() < kHeadElements || reply->elements.size() % 3 != 0) {
    return NotUnderstood("walking the buckets", reply);
  }
  KERF_ASSIGN_OR_RETURN(const SaidOfHead said, HeadSaid(*reply));
  const std::size_t end = reply->elements.size() - kHeadElements;
  const auto add = [&](std::string path, const BucketContent& content, std::uint64_t entry_count,
                       bool is_begun) {
    buckets.push_back({base,
                       std::move(path),
                       content.epoch_value.value_or(""),
                       EpochToAnswer(content),
                       RemovedSince(content),
                       entry_count,
                       is_begun,
                       FenceOf(content),
                       {content.epoch, content.removed_count},
                       said.head,
                       said.entry_count,
                       said.removed_count});
  };
  BucketContent none;
  none.head = said.head;
  if (end == 0) {
    none.epoch_without = state.EpochWithout(base);
    add("", none, 0, state.MayBeMade(base) || none.has_head());
  }
  for (std::size_t at = 0; at < end; at += 3) {
    const std::string& path = reply->elements[at].text;
    // Lost: nothing says what it knew.
    if (reply->elements[at + 1].text.empty()) {
      add(path, none, 0, true);
      continue;
    }
    BucketContent content;
    content.head = said.head;
    content.epoch_without = state.EpochWithout(base);
    KERF_RETURN_IF_ERROR(SetEpoch(content, reply->elements[at + 1].text));
    add(path, content, static_cast<std::uint64_t>(reply->elements[at + 2].integer), true);
  }
  return absl::OkStatus();
}

}  // namespace

Task<absl::StatusOr<std::vector<WalkedBucket>>> WalkBuckets(RedisClient& client,
                                                            const RedisRepository& repository,
                                                            const RepositoryState& state,
                                                            std::uint32_t first, std::uint32_t end,
                                                            int replica_count) {
  std::vector<ScriptCall> calls;
  calls.reserve(end - first);
  for (std::uint32_t base = first; base < end; ++base) {
    calls.push_back({KeysOf(repository.tag, base, ""), {}});
  }
  RedisReplies replies =
      co_await RunScript(client, redis_scripts::kWalk, std::move(calls), replica_count);
  std::vector<WalkedBucket> buckets;
  for (std::uint32_t base = first; base < end; ++base) {
    const absl::Status status = AddWalked(state, base, replies[base - first], buckets);
    if (!status.ok()) co_return status;
  }
  // The path is the digest's next bits: that is the order of the digests, too.
  std::sort(buckets.begin(), buckets.end(), [](const WalkedBucket& a, const WalkedBucket& b) {
    return std::tie(a.base, a.path) < std::tie(b.base, b.path);
  });
  co_return buckets;
}

void AddTo(WalkedTotals& totals, const WalkedBucket& bucket) {
  totals.lowest_epoch = std::min(totals.lowest_epoch, bucket.epoch);
  if (bucket.is_begun) {
    const std::uint64_t told = bucket.is_apart() ? bucket.head.epoch_to_answer() : bucket.epoch;
    totals.lowest_begun_epoch = std::min(totals.lowest_begun_epoch, told);
  }
  // What is not there has been told nothing; below a head one is.
  if (!bucket.epoch_value.empty() || bucket.head.is_there()) {
    totals.there.Add(bucket.base);
    totals.highest_epoch = std::max(totals.highest_epoch, bucket.fence);
  }
  totals.removed_count += bucket.removed_count;
  totals.entry_count += bucket.entry_count;
  totals.has_heads = totals.has_heads || bucket.head.is_there();
}

Task<absl::StatusOr<WalkedTotals>> WalkAll(RedisClient& client, const RedisRepository& repository,
                                           const RepositoryState& state, int replica_count) {
  WalkedTotals totals;
  WalkSteps steps(0, repository.base_count());
  while (steps.Next()) {
    auto walked =
        co_await WalkBuckets(client, repository, state, steps.begin(), steps.end(), replica_count);
    if (!walked.ok()) co_return walked.status();
    steps.Saw(walked->size());
    for (const WalkedBucket& bucket : *walked) AddTo(totals, bucket);
  }
  co_return totals;
}

}  // namespace kerf
