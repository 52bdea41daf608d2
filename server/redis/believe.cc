#include "server/redis/believe.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "server/index/codec.h"
#include "server/redis/answers.h"
#include "server/redis/head_scripts.h"
#include "server/redis/script.h"

namespace kerf {
namespace {

// Of one script: what it answers goes over Lua's stack.
constexpr std::size_t kMaxBelievedFields = 1'000;
// How often what others change meanwhile is asked for again; then it stays unverified.
constexpr int kMaxBelieveRounds = 20;

ScriptCall BelieveOf(const RedisRepository& repository, std::span<const Digest> digests,
                     const BucketGroup& group) {
  ScriptCall call;
  call.keys = KeysOf(repository.tag, group.base, group.path);
  call.arguments = {*group.content.epoch_value, group.content.head->value,
                    index_codec::EncodeFollowing({group.content.head->epoch, 0}),
                    WithLoss(*group.content.head)};
  for (const std::size_t index : group.at) {
    call.arguments.emplace_back(index_codec::DigestKey(repository.id, digests[index]));
  }
  return call;
}

bool IsOfASlotThatMoves(const absl::StatusOr<RedisReply>& reply) {
  return reply.ok() && reply->kind == RedisReply::Kind::kError &&
         reply->text.starts_with("TRYAGAIN");
}

// Parts of one bucket are asked for one by one.
std::vector<BucketGroup> SmallPartsOf(std::vector<BucketGroup> groups) {
  std::vector<BucketGroup> parts;
  parts.reserve(groups.size());
  for (BucketGroup& group : groups) {
    while (group.at.size() > kMaxBelievedFields) {
      BucketGroup& part = parts.emplace_back(group);
      part.at.resize(kMaxBelievedFields);
      part.content.values.resize(kMaxBelievedFields);
      const auto count = static_cast<std::ptrdiff_t>(kMaxBelievedFields);
      group.at.erase(group.at.begin(), group.at.begin() + count);
      group.content.values.erase(group.content.values.begin(),
                                 group.content.values.begin() + count);
    }
    parts.push_back(std::move(group));
  }
  return parts;
}

// `doubtful` buckets are moved to `done`, raised where their heads say more than they; those that
// are not what was read any more are to be read again: their digests.
Task<absl::StatusOr<std::vector<std::size_t>>> Believe(RedisClient& client,
                                                       const RedisRepository& repository,
                                                       std::span<const Digest> digests,
                                                       std::uint64_t session_epoch,
                                                       std::vector<BucketGroup> doubtful,
                                                       std::vector<BucketGroup>& done) {
  std::vector<std::uint32_t> bases;
  for (const BucketGroup& group : doubtful) {
    if (bases.empty() || bases.back() != group.base) bases.push_back(group.base);
  }
  const auto heads = co_await ReadHeads(client, repository, bases);
  if (!heads.ok()) co_return heads.status();
  std::vector<BucketGroup> behind;
  std::size_t number = 0;
  for (BucketGroup& group : doubtful) {
    while (bases[number] != group.base) ++number;
    group.content.head = (*heads)[number];
    const bool is_behind = group.content.has_head() && group.content.head->epoch >= session_epoch;
    (is_behind ? behind : done).push_back(std::move(group));
  }
  behind = SmallPartsOf(std::move(behind));
  std::vector<ScriptCall> calls;
  calls.reserve(behind.size());
  for (const BucketGroup& group : behind) calls.push_back(BelieveOf(repository, digests, group));
  RedisReplies replies = co_await RunScript(client, redis_scripts::kBelieve, std::move(calls), 0,
                                            /*waits_for_slots=*/false);
  std::vector<std::size_t> again;
  for (std::size_t index = 0; index < behind.size(); ++index) {
    BucketGroup& group = behind[index];
    auto& reply = replies[index];
    if (reply.ok() && reply->kind == RedisReply::Kind::kInteger) {
      again.insert(again.end(), group.at.begin(), group.at.end());
      continue;
    }
    if (!IsOfASlotThatMoves(reply)) {
      if (!IsArrayOf(reply, group.at.size())) co_return NotUnderstood("raising a bucket", reply);
      group.content.epoch = group.content.head->epoch;
      group.content.removed_count = 0;
      for (std::size_t at = 0; at < group.at.size(); ++at) {
        group.content.values[at] = std::move(reply->elements[at].text);
      }
    }
    done.push_back(std::move(group));
  }
  co_return again;
}

}  // namespace

Task<absl::StatusOr<std::vector<BucketGroup>>> ReadToBelieve(RedisClient& client,
                                                             RedisRepository& repository,
                                                             std::span<const Digest> digests,
                                                             std::uint64_t session_epoch) {
  std::vector<BucketGroup> done;
  std::vector<std::size_t> left(digests.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  for (int round = 0; !left.empty(); ++round) {
    auto groups = co_await ReadBuckets(client, repository, digests, std::move(left),
                                       HeadReads::kOne, PathsOfRound(repository, round));
    if (!groups.ok()) co_return groups.status();
    left.clear();
    std::vector<BucketGroup> doubtful;
    for (BucketGroup& group : *groups) {
      const auto is_in_doubt = IsInDoubt(group.content, session_epoch);
      if (!is_in_doubt.ok()) co_return is_in_doubt.status();
      const bool is_asked = *is_in_doubt && round < kMaxBelieveRounds;
      (is_asked ? doubtful : done).push_back(std::move(group));
    }
    if (doubtful.empty()) break;
    auto again =
        co_await Believe(client, repository, digests, session_epoch, std::move(doubtful), done);
    if (!again.ok()) co_return again.status();
    left = *std::move(again);
  }
  co_return done;
}

}  // namespace kerf
