#include "server/redis/heads.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/status.h"
#include "server/redis/answers.h"
#include "server/redis/head_answers.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"

namespace kerf {
namespace {

absl::StatusOr<LookedAtBase> LookedAt(const RepositoryState& state, std::uint32_t base,
                                      const std::string& path,
                                      const absl::StatusOr<RedisReply>& reply) {
  if (!IsArrayOf(reply, 1 + kHeadElements) ||
      reply->elements[0].kind != RedisReply::Kind::kInteger) {
    return NotUnderstood("looking at heads", reply);
  }
  KERF_ASSIGN_OR_RETURN(const SaidOfHead said, HeadSaid(*reply));
  LookedAtBase looked_at;
  looked_at.base = base;
  looked_at.head = said.head;
  const std::int64_t bits = reply->elements[0].integer;
  looked_at.has_bucket = bits >= 0;
  if (!looked_at.has_bucket) {
    looked_at.missing_path = path.substr(0, static_cast<std::size_t>(-1 - bits));
  }
  if (!said.head.is_there()) {
    looked_at.epoch = state.EpochWithout(base);
    looked_at.is_begun = state.MayBeMade(base);
    return looked_at;
  }
  // One that is lost below it may have had anything.
  looked_at.epoch = looked_at.has_bucket ? said.head.epoch_to_answer() : 0;
  looked_at.entry_count = said.entry_count.value_or(0);
  looked_at.is_counted = said.entry_count.has_value();
  looked_at.removed_count = said.removed_count;
  return looked_at;
}

// Nothing at all of it is there.
bool IsEmpty(const LookedAtBase& looked_at) {
  return !looked_at.head.is_there() && !looked_at.has_bucket && looked_at.missing_path.empty();
}

Task<absl::Status> Walk(RedisClient& client, const RedisRepository& repository,
                        const RepositoryState& state, int replica_count, LookedAtBase& looked_at) {
  auto walked = co_await WalkBuckets(client, repository, state, looked_at.base, looked_at.base + 1,
                                     replica_count);
  if (!walked.ok()) co_return walked.status();
  WalkedTotals totals;
  for (const WalkedBucket& bucket : *walked) AddTo(totals, bucket);
  looked_at.epoch = totals.lowest_epoch;
  looked_at.removed_count = totals.removed_count;
  looked_at.entry_count = totals.entry_count;
  looked_at.is_begun = true;
  looked_at.headless = *std::move(walked);
  co_return absl::OkStatus();
}

// What its head does not know any more.
Task<absl::Status> Count(RedisClient& client, const RedisRepository& repository,
                         const RepositoryState& state, LookedAtBase& looked_at) {
  const auto walked =
      co_await WalkBuckets(client, repository, state, looked_at.base, looked_at.base + 1, 0);
  if (!walked.ok()) co_return walked.status();
  for (const WalkedBucket& bucket : *walked) looked_at.entry_count += bucket.entry_count;
  co_return absl::OkStatus();
}

}  // namespace

std::string AnyPath() {
  std::random_device random;
  std::string path(kMaxPathBits, '0');
  for (char& letter : path) letter = random() % 2 == 0 ? '0' : '1';
  return path;
}

Task<absl::StatusOr<std::vector<LookedAtBase>>> LookAtHeads(RedisClient& client,
                                                            const RedisRepository& repository,
                                                            const RepositoryState& state,
                                                            std::string path, int replica_count) {
  std::vector<ScriptCall> calls;
  calls.reserve(repository.base_count());
  for (std::uint32_t base = 0; base < repository.base_count(); ++base) {
    calls.push_back({KeysOf(repository.tag, base, ""), {path}});
  }
  RedisReplies replies =
      co_await RunScript(client, redis_scripts::kFind, std::move(calls), replica_count);
  std::vector<LookedAtBase> bases;
  bases.reserve(repository.base_count());
  for (std::uint32_t base = 0; base < repository.base_count(); ++base) {
    auto looked_at = LookedAt(state, base, path, replies[base]);
    if (!looked_at.ok()) co_return looked_at.status();
    if (!looked_at->head.is_there() && !IsEmpty(*looked_at)) {
      const absl::Status status =
          co_await Walk(client, repository, state, replica_count, *looked_at);
      if (!status.ok()) co_return status;
    }
    if (!looked_at->is_counted) {
      const absl::Status status = co_await Count(client, repository, state, *looked_at);
      if (!status.ok()) co_return status;
    }
    bases.push_back(*std::move(looked_at));
  }
  co_return bases;
}

WalkedTotals TotalsOf(const std::vector<LookedAtBase>& bases) {
  WalkedTotals totals;
  for (const LookedAtBase& looked_at : bases) {
    for (const WalkedBucket& bucket : looked_at.headless) AddTo(totals, bucket);
    if (!looked_at.headless.empty()) continue;
    totals.lowest_epoch = std::min(totals.lowest_epoch, looked_at.epoch);
    if (looked_at.is_begun) {
      totals.lowest_begun_epoch = std::min(totals.lowest_begun_epoch, looked_at.epoch);
    }
    totals.removed_count += looked_at.removed_count;
    totals.entry_count += looked_at.entry_count;
    if (!looked_at.head.is_there()) continue;
    totals.there.Add(looked_at.base);
    totals.highest_epoch = std::max(totals.highest_epoch, looked_at.head.epoch);
  }
  return totals;
}

ScriptCall FollowCallOf(const RedisRepository& repository, std::span<const WalkedBucket> below,
                        std::string head, std::string removed) {
  const WalkedBucket& first = below.front();
  ScriptCall call{KeysOf(repository.tag, first.base, ""),
                  {first.head.value, std::move(head), std::move(removed)}};
  for (const WalkedBucket& bucket : below) {
    const bool stays = first.head.is_there() && !bucket.epoch_value.empty();
    call.arguments.insert(call.arguments.end(),
                          {bucket.path, bucket.epoch_value,
                           stays ? bucket.epoch_value : index_codec::EncodeFollowing(bucket.own)});
  }
  return call;
}

Task<absl::StatusOr<WalkedTotals>> TotalsNow(RedisClient& client, const RedisRepository& repository,
                                             const RepositoryState& state, int replica_count) {
  if (state.layout != RedisLayout::kHeads) {
    co_return co_await WalkAll(client, repository, state, replica_count);
  }
  const auto bases = co_await LookAtHeads(client, repository, state, AnyPath(), replica_count);
  if (!bases.ok()) co_return bases.status();
  co_return TotalsOf(*bases);
}

}  // namespace kerf
