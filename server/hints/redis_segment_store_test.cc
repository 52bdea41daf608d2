// The conformance suite against real Redis servers, and what only this leaf has.
#include "server/hints/redis_segment_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "server/hints/testing/conformance.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {
namespace {

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

// Time enough on a busy machine.
constexpr std::chrono::milliseconds kTimeout{20'000};

TestRedis& SingleRedis() {
  static TestRedis redis(TestRedis::Kind::kSingle);
  return redis;
}
TestRedis& ClusterRedis() {
  static TestRedis redis(TestRedis::Kind::kCluster);
  return redis;
}

std::unique_ptr<SegmentStore> StoreOn(TestRedis& redis) {
  redis.Flush();
  RedisSegmentOptions options;
  options.redis = redis.options_of_kerfd();
  options.timeout = kTimeout;
  auto store = CreateRedisSegmentStore(std::move(options));
  KERF_CHECK(store.ok());
  return *std::move(store);
}

INSTANTIATE_TEST_SUITE_P(SingleRedis, SegmentStoreConformance,
                         ::testing::Values(SegmentStoreLeaf{
                             [] { return StoreOn(SingleRedis()); }}));
INSTANTIATE_TEST_SUITE_P(RedisCluster, SegmentStoreConformance,
                         ::testing::Values(SegmentStoreLeaf{
                             [] { return StoreOn(ClusterRedis()); }}));

HintScope AnyScope() {
  const auto profile = ParseProfile("mincdc-8k");
  KERF_CHECK(profile.ok());
  return HintScope({"photos", DigestAlgorithm::kBlake3}, *profile);
}

StoredSegment SegmentOf(Random& random, std::size_t anchor_count) {
  StoredSegment segment;
  random.Fill(segment.id.bytes);
  segment.bytes = "bytes";
  segment.anchors.resize(anchor_count);
  for (Digest& anchor : segment.anchors) random.Fill(anchor.bytes);
  return segment;
}

RedisReply Ask(RedisClient& client, std::string key, std::vector<std::string> arguments) {
  std::promise<RedisReply> answer;
  client.Send({std::move(key), std::nullopt, std::move(arguments)},
              [&answer](const absl::StatusOr<RedisReply>& reply) {
                answer.set_value(reply.ok() ? *reply : RedisReply());
              });
  return answer.get_future().get();
}

TEST(RedisSegmentStore, EveryKeyHasATimeToLive) {
  Random random(TestSeed());
  TestRedis& redis = SingleRedis();
  const auto store = StoreOn(redis);
  ASSERT_TRUE(PutAndWait(*store, AnyScope(), {SegmentOf(random, 3), SegmentOf(random, 0)}).ok());
  const auto client = RedisClient::Create(redis.options());
  ASSERT_TRUE(client.ok());
  const RedisReply keys = Ask(**client, "", {"KEYS", "*"});
  ASSERT_EQ(keys.elements.size(), 5u);
  for (const RedisReply& key : keys.elements) {
    EXPECT_TRUE(key.text.starts_with("hs:") || key.text.starts_with("ha:"));
    const std::int64_t seconds = Ask(**client, key.text, {"TTL", key.text}).integer;
    EXPECT_GT(seconds, 29 * 86'400);
    EXPECT_LE(seconds, 30 * 86'400);
  }
}

TEST(RedisSegmentStore, WhatSomebodyElseHasWrittenIsAnErrorOrCutShort) {
  Random random(TestSeed());
  TestRedis& redis = SingleRedis();
  const auto store = StoreOn(redis);
  const HintScope scope = AnyScope();
  const StoredSegment segment = SegmentOf(random, 1);
  const auto client = RedisClient::Create(redis.options());
  ASSERT_TRUE(client.ok());
  const std::string segment_key = "hs:" + HintKeyOf(scope, segment.id);
  const std::string anchor_key = "ha:" + HintKeyOf(scope, segment.anchors[0]);

  Ask(**client, segment_key, {"SET", segment_key, std::string(1'000'000, 'x')});
  const FetchedBytes cut = FetchAndWait(*store, scope, segment.id);
  ASSERT_TRUE(cut.ok() && cut->has_value());
  EXPECT_EQ((*cut)->size(), kMaxSegmentBytes + 1);
  for (const std::size_t size : {std::size_t{15}, std::size_t{17}, std::size_t{1'000'000}}) {
    Ask(**client, anchor_key, {"SET", anchor_key, std::string(size, 'x')});
    EXPECT_EQ(FindAndWait(*store, scope, segment.anchors[0]).status().code(),
              absl::StatusCode::kDataLoss);
  }
  for (const std::string& key : {segment_key, anchor_key}) {
    Ask(**client, key, {"DEL", key});
    Ask(**client, key, {"RPUSH", key, "a"});
  }
  EXPECT_FALSE(FetchAndWait(*store, scope, segment.id).ok());
  EXPECT_FALSE(FindAndWait(*store, scope, segment.anchors[0]).ok());
  // What is put there takes its place.
  ASSERT_TRUE(PutAndWait(*store, scope, {segment}).ok());
  EXPECT_EQ(FetchAndWait(*store, scope, segment.anchors[0]).value_or("error"), segment.bytes);
}

TEST(RedisSegmentStore, NothingIsWrittenWhereEntriesNeedTheRoom) {
  Random random(TestSeed());
  // Of its own, because of the settings.
  TestRedis redis(TestRedis::Kind::kSingle);
  const auto client = RedisClient::Create(redis.options());
  ASSERT_TRUE(client.ok());
  const HintScope scope = AnyScope();
  const StoredSegment segment = SegmentOf(random, 2);
  Ask(**client, "", {"CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "noeviction"});
  {
    const auto store = StoreOn(redis);
    for (int count = 0; count < 2; ++count) {
      const absl::Status put = PutAndWait(*store, scope, {segment});
      EXPECT_EQ(put.code(), absl::StatusCode::kFailedPrecondition) << put;
    }
    EXPECT_EQ(FetchAndWait(*store, scope, segment.id).value_or("error"), std::nullopt);
  }
  Ask(**client, "", {"CONFIG", "SET", "maxmemory-policy", "volatile-ttl"});
  EXPECT_TRUE(PutAndWait(*StoreOn(redis), scope, {segment}).ok());
  Ask(**client, "", {"CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction"});
  EXPECT_TRUE(PutAndWait(*StoreOn(redis), scope, {segment}).ok());
}

TEST(RedisSegmentStore, ARedisThatIsNotThereIsAnErrorSoon) {
  Random random(TestSeed());
  RedisSegmentOptions options;
  // Nobody listens on port 1.
  options.redis.seeds = {{"127.0.0.1", 1}};
  options.timeout = std::chrono::milliseconds(50);
  const auto store = CreateRedisSegmentStore(std::move(options));
  ASSERT_TRUE(store.ok()) << store.status();
  const HintScope scope = AnyScope();
  const StoredSegment segment = SegmentOf(random, 2);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(FindAndWait(**store, scope, segment.anchors[0]).ok());
  EXPECT_FALSE(FetchAndWait(**store, scope, segment.id).ok());
  EXPECT_FALSE(PutAndWait(**store, scope, {segment}).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_FALSE(CreateRedisSegmentStore({}).ok());
}

TEST(RedisSegmentStore, CallsEndWithIt) {
  Random random(TestSeed());
  RedisSegmentOptions options;
  options.redis.seeds = {{"127.0.0.1", 1}};
  options.timeout = kTimeout;
  auto store = CreateRedisSegmentStore(std::move(options));
  ASSERT_TRUE(store.ok()) << store.status();
  std::promise<bool> found;
  std::promise<bool> put;
  const StoredSegment segment = SegmentOf(random, 2);
  (*store)->FindByAnchor(AnyScope(), segment.anchors[0],
                         [&found](const FoundId& id) { found.set_value(id.ok()); });
  (*store)->Put(AnyScope(), {segment},
                [&put](const absl::Status& status) { put.set_value(status.ok()); });
  store->reset();
  EXPECT_FALSE(found.get_future().get());
  EXPECT_FALSE(put.get_future().get());
}

}  // namespace
}  // namespace kerf
