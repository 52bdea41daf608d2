#include "server/redis/walk.h"

#include <tuple>
#include <utility>

#include "server/index/codec.h"
#include "server/redis/answers.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"

namespace kerf {

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
    const auto& reply = replies[base - first];
    if (!reply.ok() || reply->kind != RedisReply::Kind::kArray || reply->elements.size() % 3 != 0) {
      co_return NotUnderstood("walking the buckets", reply);
    }
    if (reply->elements.empty()) {
      buckets.push_back({base, "", "", state.EpochWithout(base), 0, 0, state.MayBeMade(base)});
    }
    for (std::size_t at = 0; at < reply->elements.size(); at += 3) {
      const std::string& path = reply->elements[at].text;
      // Lost: nothing says what it knew.
      if (reply->elements[at + 1].text.empty()) {
        buckets.push_back({base, path, "", 0, 0, 0, true});
        continue;
      }
      auto epoch = index_codec::ParseEpoch(reply->elements[at + 1].text);
      if (!epoch.ok()) co_return epoch.status();
      buckets.push_back({base, path, reply->elements[at + 1].text, epoch->epoch,
                         epoch->removed_count,
                         static_cast<std::uint64_t>(reply->elements[at + 2].integer), true});
    }
  }
  // The path is the digest's next bits: that is the order of the digests, too.
  std::sort(buckets.begin(), buckets.end(), [](const WalkedBucket& a, const WalkedBucket& b) {
    return std::tie(a.base, a.path) < std::tie(b.base, b.path);
  });
  co_return buckets;
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
    for (const WalkedBucket& bucket : *walked) {
      totals.lowest_epoch = std::min(totals.lowest_epoch, bucket.epoch);
      if (bucket.is_begun) {
        totals.lowest_begun_epoch = std::min(totals.lowest_begun_epoch, bucket.epoch);
      }
      if (!bucket.epoch_value.empty()) totals.there.Add(bucket.base);
      // What is not there has been told nothing.
      if (!bucket.epoch_value.empty()) {
        totals.highest_epoch = std::max(totals.highest_epoch, bucket.epoch);
      }
      totals.removed_count += bucket.removed_count;
      totals.entry_count += bucket.entry_count;
    }
  }
  co_return totals;
}

}  // namespace kerf
