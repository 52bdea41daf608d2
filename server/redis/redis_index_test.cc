// The conformance suite against real Redis servers, and what only this leaf has.
#include "server/redis/redis_index.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <utility>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "server/index/testing/conformance.h"
#include "server/redis/buckets.h"
#include "server/redis/testing/owning_index.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {
namespace {

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

// One server for all tests; each begins with nothing in it.
template <TestRedis::Kind kKind>
IndexBackend BackendOn() {
  static TestRedis* redis = nullptr;
  const auto get = [] {
    if (redis == nullptr) redis = new TestRedis(kKind);
    return redis;
  };
  static constexpr int kReplicaCount = kKind == TestRedis::Kind::kCluster ? 1 : 0;
  return {[get] {
            get()->Flush();
            return OpenRedisOn(*get(), kReplicaCount);
          },
          [get](std::unique_ptr<Index> index) {
            index.reset();
            return OpenRedisOn(*get(), kReplicaCount);
          }};
}

INSTANTIATE_TEST_SUITE_P(Redis, IndexConformance,
                         ::testing::Values(BackendOn<TestRedis::Kind::kSingle>()));
INSTANTIATE_TEST_SUITE_P(Cluster, IndexConformance,
                         ::testing::Values(BackendOn<TestRedis::Kind::kCluster>()));

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

// Digests that all begin with the same bits, so that they lie in one base bucket.
std::vector<IndexEntry> CrowdedEntries(Random& random, std::size_t count) {
  std::vector<IndexEntry> entries(count);
  for (IndexEntry& entry : entries) {
    random.Fill(entry.digest.bytes);
    entry.digest.bytes[0] = 0xAB;
    entry.digest.bytes[1] |= 0xC0;
    entry.length_bytes = 1 + static_cast<std::uint32_t>(random.Below(10'000));
    entry.locator = Cat("pack ", random.Below(1'000'000));
  }
  return entries;
}

void ExpectThere(Index& index, std::uint64_t session_epoch, std::span<const IndexEntry> entries,
                 Verdict verdict) {
  std::vector<Digest> digests;
  for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
  std::vector<LookupResult> results(entries.size());
  ASSERT_TRUE(index.Lookup(kRepository, session_epoch, digests, results).ok());
  for (std::size_t number = 0; number < entries.size(); ++number) {
    ASSERT_EQ(results[number].verdict, verdict) << number;
    if (verdict == Verdict::kNew) continue;
    ASSERT_EQ(results[number].locator, entries[number].locator);
  }
}

TEST(RedisIndexTest, ABucketThatGrowsIsSplitAndStaysWhole) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  Random random(TestSeed());
  const std::vector<IndexEntry> entries = CrowdedEntries(random, 3'000);
  const auto index = OpenRedisOn(redis, 0);
  // Another process, which remembers where the buckets were before they were split.
  const auto other = OpenRedisOn(redis, 0);
  for (std::size_t begin = 0; begin < entries.size(); begin += 100) {
    const auto part = std::span(entries).subspan(begin, 100);
    ASSERT_TRUE(index->Commit(kRepository, 1, part, false).ok());
    ExpectThere(*other, 1, part, Verdict::kDuplicate);
  }
  ExpectThere(*index, 1, entries, Verdict::kDuplicate);
  EXPECT_EQ(index->Stats(kRepository)->entry_count, entries.size());
  ASSERT_TRUE(other->AdvanceEpoch(kRepository, 5, 0).ok());
  EXPECT_EQ(index->Stats(kRepository)->epoch, 5u);
  ExpectThere(*index, 5, entries, Verdict::kDuplicate);
  ExpectThere(*index, 6, entries, Verdict::kUnverified);
  EXPECT_EQ(index->Scan(kRepository, std::nullopt, entries.size() + 1)->size(), entries.size());
  EXPECT_EQ(other->Forget(kRepository, entries)->forgotten_count, entries.size());
  ExpectThere(*index, 5, entries, Verdict::kNew);
}

// Part of Redis is set back to a time before the last epoch: the whole index is behind.
TEST(RedisIndexTest, ABucketThatIsLostHoldsTheEpochBack) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto index = OpenRedisOn(redis, 0);
  Random random(TestSeed());
  const std::vector<IndexEntry> entries = CrowdedEntries(random, 10);
  ASSERT_TRUE(index->Commit(kRepository, 1, entries, false).ok());
  ASSERT_TRUE(index->AdvanceEpoch(kRepository, 3, 0).ok());
  const auto client = *RedisClient::Create(redis.options());
  const std::string key =
      BucketKey(RedisTagOf(kRepository), BaseOf(entries[0].digest, kDefaultBaseBits), "");
  std::promise<std::int64_t> removed;
  client->Send({key, std::nullopt, {"DEL", key}},
               [&](const auto& reply) { removed.set_value(reply->integer); });
  ASSERT_EQ(removed.get_future().get(), 1);
  EXPECT_EQ(index->AdvanceEpoch(kRepository, 5, 3).value(), 0u);
  EXPECT_EQ(index->Stats(kRepository)->epoch, 0u);
  ExpectThere(*index, 3, entries, Verdict::kNew);
  // It is made anew, and knows nothing of what was.
  ASSERT_TRUE(index->Commit(kRepository, 3, entries, false).ok());
  EXPECT_EQ(index->AdvanceEpoch(kRepository, 5, 3).value(), 0u);
  EXPECT_EQ(index->AdvanceEpoch(kRepository, 5, 0).value(), 0u);
  EXPECT_EQ(index->Stats(kRepository)->epoch, 5u);
}

TEST(RedisIndexTest, ARedisThatThrowsAwayIsRefused) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto client = *RedisClient::Create(redis.options());
  for (const auto& [policy, is_safe] :
       {std::pair("allkeys-lru", false), std::pair("allkeys-random", false),
        std::pair("volatile-lru", true), std::pair("noeviction", true)}) {
    std::promise<std::string> set;
    client->Send({"", std::nullopt, {"CONFIG", "SET", "maxmemory-policy", policy}},
                 [&](const auto& reply) { set.set_value(reply->text); });
    ASSERT_EQ(set.get_future().get(), "OK");
    std::vector<std::string> warnings;
    const auto index = RedisIndex::Open({redis.options()}, &warnings);
    EXPECT_EQ(index.ok(), is_safe) << policy;
    if (is_safe) continue;
    EXPECT_TRUE(absl::IsFailedPrecondition(index.status()));
    EXPECT_NE(index.status().message().find(policy), absl::string_view::npos) << index.status();
  }
  std::promise<std::string> set;
  client->Send({"", std::nullopt, {"CONFIG", "SET", "appendonly", "no"}},
               [&](const auto& reply) { set.set_value(reply->text); });
  ASSERT_EQ(set.get_future().get(), "OK");
  std::vector<std::string> warnings;
  ASSERT_TRUE(RedisIndex::Open({redis.options()}, &warnings).ok());
  EXPECT_EQ(warnings.size(), 1u);
}

}  // namespace
}  // namespace kerf
