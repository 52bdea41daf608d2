// What only this leaf has; the conformance suite: redis_conformance_test.cc.
#include "server/redis/redis_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/index/codec.h"
#include "server/redis/buckets.h"
#include "server/redis/scripts.h"
#include "server/redis/slot.h"
#include "server/redis/testing/expect_counts.h"
#include "server/redis/testing/open_redis.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

// As in redis_conformance_test.cc.
constexpr int kFewBaseBits = 4;

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

// All that the suite does it does as the user kerfd; here is what that user cannot do.
TEST(RedisIndexTest, TheUserKerfdMayDoNothingElse) {
  const TestRedis redis(TestRedis::Kind::kSingle, "open sesame");
  const auto index = OpenRedisOn(redis, 0, kFewBaseBits);
  ASSERT_TRUE(WaitFor(index->Stats(kRepository)).ok());
  const auto client = *RedisClient::Create(redis.options_of_kerfd());
  const auto owner = *RedisClient::Create(redis.options());
  const auto call = [&](RedisClient& as, const std::vector<std::string>& command) {
    return WaitFor<absl::StatusOr<RedisReply>>(
        [&](auto done) { as.Send({"", redis.addresses()[0], command}, std::move(done)); });
  };
  ASSERT_EQ(call(*owner, {"SET", "foreign", "value"})->text, "OK");
  const std::vector<std::vector<std::string>> forbidden = {
      {"FLUSHALL"},
      {"CONFIG", "GET", "requirepass"},
      {"CONFIG", "SET", "maxmemory", "1"},
      {"KEYS", "*"},
      {"SCAN", "0"},
      {"ACL", "LIST"},
      {"SHUTDOWN", "NOSAVE"},
      {"REPLICAOF", "127.0.0.1", "1"},
      {"CLUSTER", "RESET"},
      {"SCRIPT", "FLUSH"},
      {"GET", "foreign"},
      {"SET", "foreign", "other"},
      {"DEL", "foreign"},
      {"EVAL", "return redis.call('FLUSHALL')", "0"},
      {"EVAL", "return redis.call('DEL', KEYS[1])", "1", "foreign"}};
  for (const std::vector<std::string>& command : forbidden) {
    const auto reply = call(*client, command);
    // Of a script Redis says in its own words what it may not call.
    EXPECT_TRUE(absl::IsPermissionDenied(reply.status()) ||
                (reply.ok() && reply->kind == RedisReply::Kind::kError &&
                 reply->text.find("can't run this command") != std::string::npos))
        << command.front() << ": " << (reply.ok() ? reply->text : reply.status().ToString());
  }
  EXPECT_EQ(call(*owner, {"GET", "foreign"})->text, "value");
}

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
  ASSERT_TRUE(WaitFor(index.Lookup(kRepository, session_epoch, digests, results)).ok());
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
    ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, part, false)).ok());
    ExpectThere(*other, 1, part, Verdict::kDuplicate);
  }
  ExpectThere(*index, 1, entries, Verdict::kDuplicate);
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->entry_count, entries.size());
  ASSERT_TRUE(WaitFor(other->AdvanceEpoch(kRepository, 5, 0)).ok());
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->epoch, 5u);
  ExpectThere(*index, 5, entries, Verdict::kDuplicate);
  ExpectThere(*index, 6, entries, Verdict::kUnverified);
  EXPECT_EQ(WaitFor(index->Scan(kRepository, std::nullopt, entries.size() + 1))->size(),
            entries.size());
  ExpectForgotten(*other, WaitFor(other->Forget(kRepository, entries)), entries.size());
  ExpectThere(*index, 5, entries, Verdict::kNew);
}

std::unique_ptr<Index> OpenExpecting(const TestRedis& redis, std::uint64_t entry_count) {
  RedisIndexOptions options{redis.options()};
  options.expected_entry_count = entry_count;
  options.layout = LayoutOfTest();
  std::vector<std::string> warnings;
  return *RedisIndex::Open(std::move(options), &warnings);
}

// How many buckets each base bucket is split into.
std::map<std::string, int> BucketCounts(const TestRedis& redis) {
  const auto client = *RedisClient::Create(redis.options());
  const auto keys = WaitFor<absl::StatusOr<RedisReply>>(
      [&](auto done) { client->Send({"", std::nullopt, {"KEYS", "k:*"}}, std::move(done)); });
  std::map<std::string, int> counts;
  for (const RedisReply& key : keys->elements) ++counts[key.text.substr(0, key.text.find('}'))];
  return counts;
}

// Does not look at what Redis has become in the meantime: on a busy machine its watch, every
// second, would find the name that another one has given to the Redis that was emptied.
std::unique_ptr<Index> OpenUnwatched(const TestRedis& redis) {
  RedisIndexOptions options{redis.options_of_kerfd()};
  options.watch.interval = std::chrono::hours(1);
  options.layout = LayoutOfTest();
  std::vector<std::string> warnings;
  return *RedisIndex::Open(std::move(options), &warnings);
}

// Redis is emptied while kerfd goes on: what it writes then is found by those that begin later.
TEST(RedisIndexTest, WhatIsWrittenAfterRedisWasEmptiedIsFoundByOthers) {
  for (const bool advances : {false, true}) {
    TestRedis redis(TestRedis::Kind::kSingle);
    Random random(TestSeed());
    const std::vector<IndexEntry> entries = CrowdedEntries(random, 10);
    const auto index = OpenUnwatched(redis);
    ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
    redis.Flush();
    if (advances) {
      ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 2, 0)).ok());
      EXPECT_EQ(WaitFor(OpenRedisOn(redis, 0)->Stats(kRepository))->epoch, 2u);
    }
    ASSERT_TRUE(WaitFor(index->Commit(kRepository, 2, entries, false)).ok());
    const auto later = OpenRedisOn(redis, 0);
    ExpectThere(*later, 2, entries, Verdict::kDuplicate);
    EXPECT_EQ(WaitFor(later->Stats(kRepository))->entry_count, entries.size());
  }
}

std::string TextOf(RedisClient& client, RedisCommand command) {
  const auto reply = WaitFor<absl::StatusOr<RedisReply>>(
      [&](auto done) { client.Send(std::move(command), std::move(done)); });
  EXPECT_TRUE(reply.ok() && reply->kind == RedisReply::Kind::kText) << reply.status();
  return reply.ok() ? reply->text : "";
}

// While a slot moves the node that it goes to is asked for keys that the other one does not have;
// it cannot know whether they are there.
TEST(RedisIndexTest, ASlotThatMovesAnswersForNothingThatItLacks) {
  const TestRedis redis(TestRedis::Kind::kCluster);
  RedisIndexOptions options{redis.options()};
  options.base_bits = 1;
  options.layout = LayoutOfTest();
  std::vector<std::string> warnings;
  const auto index = *RedisIndex::Open(options, &warnings);
  Random random(TestSeed());
  // Nobody has a bucket of the shortest path, once it is split.
  const std::vector<IndexEntry> entries = CrowdedEntries(random, kMaxBucketEntries + 1);
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, true)).ok());

  const auto client = *RedisClient::Create(redis.options());
  const std::string key = BucketKey(RedisTagOf(kRepository), 1, "");
  const std::string slot = std::to_string(RedisSlotOf(key));
  const std::string owner_id = TextOf(*client, {key, std::nullopt, {"CLUSTER", "MYID"}});
  const auto masters = WaitFor<absl::StatusOr<std::vector<RedisAddress>>>(
      [&](auto done) { client->ReadMasters(std::move(done)); });
  ASSERT_TRUE(masters.ok());
  for (const RedisAddress& target : *masters) {
    const std::string target_id = TextOf(*client, {"", target, {"CLUSTER", "MYID"}});
    if (target_id == owner_id) continue;
    TextOf(*client, {"", target, {"CLUSTER", "SETSLOT", slot, "IMPORTING", owner_id}});
    TextOf(*client, {key, std::nullopt, {"CLUSTER", "SETSLOT", slot, "MIGRATING", target_id}});
    options.redis.command_timeout = std::chrono::milliseconds(500);
    const auto other = *RedisIndex::Open(options, &warnings);
    std::vector<Digest> digests;
    digests.reserve(entries.size());
    for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
    std::vector<LookupResult> results(digests.size());
    EXPECT_TRUE(absl::IsUnavailable(WaitFor(other->Lookup(kRepository, 1, digests, results))));
    TextOf(*client, {key, std::nullopt, {"CLUSTER", "SETSLOT", slot, "STABLE"}});
    TextOf(*client, {"", target, {"CLUSTER", "SETSLOT", slot, "STABLE"}});
    ExpectThere(*other, 1, entries, Verdict::kDuplicate);
    return;
  }
  FAIL() << "there is one master only";
}

// How many of them are not known.
std::size_t LostOf(Index& index, std::span<const IndexEntry> entries) {
  std::vector<Digest> digests;
  for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
  std::vector<LookupResult> results(digests.size());
  EXPECT_TRUE(WaitFor(index.Lookup(kRepository, 1, digests, results)).ok());
  return static_cast<std::size_t>(
      std::count_if(results.begin(), results.end(),
                    [](const LookupResult& result) { return result.verdict == Verdict::kNew; }));
}

// A bucket grows too large while its slot moves, before any key of it has gone.
TEST(RedisIndexTest, ABucketThatIsSplitWhileItsSlotMovesLosesNothing) {
  const TestRedis redis(TestRedis::Kind::kCluster);
  Random random(TestSeed());
  const auto index = OpenRedisOn(redis, 1, 2);
  const std::vector<IndexEntry> entries = CrowdedEntries(random, 600);
  const auto before = std::span(entries).first(200);
  const auto client = *RedisClient::Create(redis.options());
  const std::string key = BucketKey(RedisTagOf(kRepository), BaseOf(entries[0].digest, 2), "");
  const std::string slot = Cat(RedisSlotOf(key));
  const std::string owner_id = TextOf(*client, {key, std::nullopt, {"CLUSTER", "MYID"}});
  const auto masters = WaitFor<absl::StatusOr<std::vector<RedisAddress>>>(
      [&](auto done) { client->ReadMasters(std::move(done)); });
  ASSERT_TRUE(masters.ok());
  RedisAddress target;
  std::string target_id;
  for (const RedisAddress& master : *masters) {
    const std::string id = TextOf(*client, {"", master, {"CLUSTER", "MYID"}});
    if (id == owner_id) continue;
    target = master;
    target_id = id;
  }
  // Splits go on by themselves; commits that come behind them wait for them.
  for (int round = 0; round < 12; ++round) {
    ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, before, true)).ok());
  }
  TextOf(*client, {"", target, {"CLUSTER", "SETSLOT", slot, "IMPORTING", owner_id}});
  TextOf(*client, {key, std::nullopt, {"CLUSTER", "SETSLOT", slot, "MIGRATING", target_id}});
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, std::span(entries).subspan(200), false)).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  TextOf(*client, {key, std::nullopt, {"CLUSTER", "SETSLOT", slot, "STABLE"}});
  TextOf(*client, {"", target, {"CLUSTER", "SETSLOT", slot, "STABLE"}});
  EXPECT_EQ(LostOf(*index, entries), 0u);
}

// The same with slots that move as fast as they can.
TEST(RedisIndexTest, WhatIsCommittedWhileASlotMovesStays) {
  TestRedis redis(TestRedis::Kind::kCluster);
  Random random(TestSeed());
  const auto index = OpenRedisOn(redis, 1, 1);
  const std::vector<IndexEntry> entries = CrowdedEntries(random, 10'000);
  const std::string slot =
      Cat(RedisSlotOf(BucketKey(RedisTagOf(kRepository), BaseOf(entries[0].digest, 1), "")));
  std::atomic<bool> is_over{false};
  std::thread committer([&] {
    for (std::size_t at = 0; at < entries.size(); at += 50) {
      EXPECT_TRUE(
          WaitFor(index->Commit(kRepository, 1, std::span(entries).subspan(at, 50), false)).ok());
    }
    is_over = true;
  });
  while (!is_over) {
    for (const std::string node : {"1", "2", "3"}) redis.Do({"move", slot, node});
  }
  committer.join();
  EXPECT_EQ(LostOf(*index, entries), 0u);
}

// KEYS[1] must have an `e` of ARGV[1] (else 0) and KEYS[2] of ARGV[2] (else 2), which is then set
// to ARGV[3].
constexpr char kSetBack[] = R"lua(
if redis.call('HGET', KEYS[1], 'e') ~= ARGV[1] then return 0 end
if redis.call('HGET', KEYS[2], 'e') ~= ARGV[2] then return 2 end
redis.call('HSET', KEYS[2], 'e', ARGV[3])
return 1
)lua";

// A shard goes back in time between the look at all buckets and their raising.
TEST(RedisIndexTest, ABucketThatGoesBackWhileTheEpochIsRaisedIsSeen) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto index = OpenRedisOn(redis, 0);
  // One in each base bucket, so that it takes some time.
  std::vector<IndexEntry> entries;
  entries.reserve(1u << kDefaultBaseBits);
  for (std::uint32_t base = 0; base < 1u << kDefaultBaseBits; ++base) {
    entries.push_back({LastOf(kRepository, base, kDefaultBaseBits), 7, "somewhere"});
  }
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 1, 0)).ok());
  const auto client = *RedisClient::Create(redis.options());
  const std::string tag = RedisTagOf(kRepository);
  constexpr std::uint64_t kTries = 50;
  for (std::uint64_t epoch = 2; epoch < 2 + kTries; ++epoch) {
    auto raised = std::async(std::launch::async, [&] {
      return WaitFor(index->AdvanceEpoch(kRepository, epoch, epoch - 1));
    });
    // The first bucket has been raised, the last one has not.
    RedisCommand set_back;
    const auto key_of = [&](std::uint32_t base) {
      return HasHeads() ? HeadKey(tag, base) : BucketKey(tag, base, "");
    };
    set_back.key = key_of(0);
    set_back.arguments = {"EVAL",
                          kSetBack,
                          "2",
                          set_back.key,
                          key_of((1u << kDefaultBaseBits) - 1),
                          index_codec::EncodeNumber(epoch),
                          index_codec::EncodeNumber(epoch - 1),
                          index_codec::EncodeNumber(epoch - 2)};
    std::int64_t outcome = 0;
    while (outcome == 0) {
      outcome = WaitFor<absl::StatusOr<RedisReply>>([&](auto done) {
                  client->Send(set_back, std::move(done));
                })->integer;
    }
    const absl::StatusOr<std::uint64_t> before = raised.get();
    ASSERT_TRUE(before.ok()) << before.status();
    if (outcome == 1) {
      EXPECT_EQ(*before, epoch - 2);
      EXPECT_EQ(WaitFor(index->Stats(kRepository))->epoch, epoch - 2);
      return;
    }
    EXPECT_EQ(*before, epoch - 1);
  }
  FAIL() << "no bucket could be set back in time";
}

TEST(RedisIndexTest, FirstPathsAreAsLongAsTheExpectedEntriesNeed) {
  EXPECT_EQ(FirstPathBits(0, 10), 0);
  EXPECT_EQ(FirstPathBits(1024 * 48, 10), 0);
  EXPECT_EQ(FirstPathBits(1024 * 49, 10), 1);
  EXPECT_EQ(FirstPathBits(1024 * 100, 10), 2);
  EXPECT_EQ(FirstPathBits(~std::uint64_t{0}, 10), kMaxFirstPathBits);
}

TEST(RedisIndexTest, ABucketIsSplitAtOnceAsFarAsIsExpected) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  Random random(TestSeed());
  const std::vector<IndexEntry> entries = CrowdedEntries(random, 500);
  const auto index = OpenExpecting(redis, 1024 * 150);
  const auto other = OpenRedisOn(redis, 0);
  const auto first = std::span(entries).first(kMaxBucketEntries);
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, first.first(1), false)).ok());
  EXPECT_THAT(BucketCounts(redis), ElementsAre(testing::Pair(testing::_, 1)));
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, first, false)).ok());
  EXPECT_THAT(BucketCounts(redis), ElementsAre(testing::Pair(testing::_, 4)));
  ExpectThere(*other, 1, first, Verdict::kDuplicate);
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->entry_count, first.size());
  for (std::size_t begin = 0; begin < entries.size(); begin += 50) {
    const auto part = std::span(entries).subspan(begin, 50);
    ASSERT_TRUE(WaitFor(other->Commit(kRepository, 1, part, false)).ok());
    ExpectThere(*index, 1, part, Verdict::kDuplicate);
  }
  EXPECT_EQ(WaitFor(other->Stats(kRepository))->entry_count, entries.size());
  EXPECT_EQ(WaitFor(index->Scan(kRepository, std::nullopt, entries.size() + 1))->size(),
            entries.size());
  ASSERT_TRUE(WaitFor(other->AdvanceEpoch(kRepository, 2, 0)).ok());
  ExpectThere(*index, 3, entries, Verdict::kUnverified);
}

TEST(RedisIndexTest, ThoseWhoMakeARepositoryAtOnceAgreeOnItsBuckets) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  Random random(TestSeed());
  std::vector<std::unique_ptr<Index>> makers;
  for (const std::uint64_t expected : {0, 1024 * 80, 1024 * 300}) {
    makers.push_back(OpenExpecting(redis, expected));
  }
  for (int round = 0; round < 5; ++round) {
    const RepositoryId repository{Cat("photos-", round), DigestAlgorithm::kBlake3};
    const std::vector<IndexEntry> entries = CrowdedEntries(random, makers.size() * 40);
    std::vector<std::thread> threads;
    threads.reserve(makers.size());
    for (std::size_t number = 0; number < makers.size(); ++number) {
      threads.emplace_back([&, number] {
        const auto own = std::span(entries).subspan(number * 40, 40);
        EXPECT_TRUE(WaitFor(makers[number]->Commit(repository, 1, own, false)).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(BucketCounts(redis).size(), 1u + static_cast<std::size_t>(round));
    std::vector<Digest> digests;
    digests.reserve(entries.size());
    for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
    for (const auto& maker : makers) {
      std::vector<LookupResult> results(digests.size());
      ASSERT_TRUE(WaitFor(maker->Lookup(repository, 1, digests, results)).ok());
      for (const LookupResult& result : results) EXPECT_EQ(result.verdict, Verdict::kDuplicate);
      EXPECT_EQ(WaitFor(maker->Stats(repository))->entry_count, entries.size());
    }
  }
}

// Part of Redis is set back to a time before the last epoch: the whole index is behind.
TEST(RedisIndexTest, ABucketThatIsLostHoldsTheEpochBack) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto index = OpenRedisOn(redis, 0);
  Random random(TestSeed());
  const std::vector<IndexEntry> entries = CrowdedEntries(random, 10);
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 3, 0)).ok());
  const auto client = *RedisClient::Create(redis.options());
  const std::string key =
      BucketKey(RedisTagOf(kRepository), BaseOf(entries[0].digest, kDefaultBaseBits), "");
  std::promise<std::int64_t> removed;
  client->Send({key, std::nullopt, {"DEL", key}},
               [&](const auto& reply) { removed.set_value(reply->integer); });
  ASSERT_EQ(removed.get_future().get(), 1);
  EXPECT_EQ(WaitFor(index->AdvanceEpoch(kRepository, 5, 3)).value(), 0u);
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->epoch, 0u);
  ExpectThere(*index, 3, entries, Verdict::kNew);
  // It is made anew, and knows nothing of what was.
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 3, entries, false)).ok());
  EXPECT_EQ(WaitFor(index->AdvanceEpoch(kRepository, 5, 3)).value(), 0u);
  ExpectEpochBefore(*index, WaitFor(index->AdvanceEpoch(kRepository, 5, 0)), 0, 5);
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->epoch, 5u);
}

// Somebody deletes some of the buckets that lie below one base bucket: that holds the epoch back as
// well, and what is committed again is found.
TEST(RedisIndexTest, BucketsThatAreLostBesideOthersAreMadeAgain) {
  Random random(TestSeed());
  for (const std::uint64_t kept_in : {2, 4, 20}) {
    const TestRedis redis(TestRedis::Kind::kSingle);
    const auto index = OpenRedisOn(redis, 0);
    const std::vector<IndexEntry> entries = CrowdedEntries(random, 2'000);
    ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
    ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 3, 0)).ok());
    const auto client = *RedisClient::Create(redis.options());
    const auto ask = [&](std::vector<std::string> arguments) {
      return *WaitFor<absl::StatusOr<RedisReply>>([&](auto done) {
        client->Send({"", std::nullopt, std::move(arguments)}, std::move(done));
      });
    };
    const std::string tag = RedisTagOf(kRepository);
    const std::uint32_t base_number = BaseOf(entries[0].digest, kDefaultBaseBits);
    const std::string base = BucketKey(tag, base_number, "");
    const std::string head = HeadKey(tag, base_number);
    const std::string head_value = ask({"HGET", head, "e"}).text;
    std::size_t gone_count = 0;
    const RedisReply keys = ask({"KEYS", base + "*"});
    for (std::size_t number = 0; number < keys.elements.size(); ++number) {
      // One stays and one goes, whatever the seed.
      if (number == 0 || (number > 1 && random.OneIn(kept_in))) continue;
      const std::string& key = keys.elements[number].text;
      gone_count += static_cast<std::size_t>(ask({"HLEN", key}).integer - 1);
      ASSERT_EQ(ask({"DEL", key}).integer, 1);
    }
    ASSERT_GT(gone_count, 0u);
    // Nor does anybody make one below a bucket that is there.
    const RedisReply refused =
        ask({"EVAL", std::string(redis_scripts::kChange), "3", keys.elements[0].text + "0",
             LongestPathKey(tag, base_number), head, "", "epoch", head_value, head_value, ""});
    ASSERT_EQ(refused.elements.size(), 2u) << refused.text;
    EXPECT_EQ(refused.elements[0].integer, 0);
    EXPECT_EQ(WaitFor(index->Scan(kRepository, std::nullopt, entries.size()))->size(),
              entries.size() - gone_count);
    // Whoever looks at heads alone meets one only by chance.
    if (!HasHeads()) {
      EXPECT_EQ(WaitFor(index->Stats(kRepository))->entry_count, entries.size() - gone_count);
      EXPECT_EQ(WaitFor(index->Stats(kRepository))->epoch, 0u);
      EXPECT_EQ(WaitFor(index->AdvanceEpoch(kRepository, 5, 3)).value(), 0u);
    }
    EXPECT_EQ(
        WaitFor(index->Forget(kRepository, std::span(entries).first(entries.size() / 2)))->epoch,
        0u);
    // One process makes buckets by commits, another does by raising the epoch.
    ASSERT_TRUE(WaitFor(index->Commit(kRepository, 3, std::span(entries).first(100), false)).ok());
    EXPECT_EQ(WaitFor(index->Stats(kRepository))->epoch, 0u);
    EXPECT_EQ(WaitFor(index->AdvanceEpoch(kRepository, 5, 3)).value(), 0u);
    const auto other = OpenRedisOn(redis, 0);
    if (HasHeads()) {
      // Or by going through all, which also counts them.
      const auto older = WaitFor(other->ForgetOlder(kRepository, 0, std::nullopt, entries.size()));
      EXPECT_EQ(older->forgotten.epoch, 0u);
      EXPECT_EQ(WaitFor(index->Scan(kRepository, std::nullopt, entries.size()))->size(),
                WaitFor(index->Stats(kRepository))->entry_count);
    }
    ExpectEpochBefore(*other, WaitFor(other->AdvanceEpoch(kRepository, 5, 0)), 0, 5);
    EXPECT_EQ(WaitFor(index->Stats(kRepository))->epoch, 5u);
    ASSERT_TRUE(WaitFor(index->Commit(kRepository, 5, entries, true)).ok());
    ExpectThere(*index, 5, entries, Verdict::kDuplicate);
    ExpectThere(*other, 5, entries, Verdict::kDuplicate);
    EXPECT_EQ(WaitFor(other->Scan(kRepository, std::nullopt, entries.size() + 1))->size(),
              entries.size());
    ExpectForgotten(*other, WaitFor(other->Forget(kRepository, entries)), entries.size());
    ExpectThere(*index, 5, entries, Verdict::kNew);
  }
}

// Without it all buckets below one base bucket are hidden, and another one is made above them. What
// is hidden hears of nothing that is forgotten, so it must not come back when that one is split.
TEST(RedisIndexTest, WhatIsHiddenWhenTheLongestPathIsLostDoesNotComeBack) {
  Random random(TestSeed());
  const TestRedis redis(TestRedis::Kind::kSingle);
  const std::vector<IndexEntry> entries = CrowdedEntries(random, 2'000);
  const auto old = std::span(entries).first(1'000);
  const auto commit = [](Index& index, std::uint64_t epoch, std::span<const IndexEntry> all) {
    for (std::size_t begin = 0; begin < all.size(); begin += 100) {
      ASSERT_TRUE(WaitFor(index.Commit(kRepository, epoch, all.subspan(begin, 100), false)).ok());
    }
  };
  const auto before = OpenRedisOn(redis, 0);
  commit(*before, 1, old);
  ExpectThere(*before, 1, old, Verdict::kDuplicate);
  const auto client = *RedisClient::Create(redis.options());
  const std::string longest =
      LongestPathKey(RedisTagOf(kRepository), BaseOf(entries[0].digest, kDefaultBaseBits));
  const auto removed = WaitFor<absl::StatusOr<RedisReply>>(
      [&](auto done) { client->Send({"", std::nullopt, {"DEL", longest}}, std::move(done)); });
  ASSERT_EQ(removed->integer, 1);
  const auto index = OpenRedisOn(redis, 0);
  ExpectThere(*index, 1, old, Verdict::kNew);
  EXPECT_EQ(WaitFor(index->Forget(kRepository, old))->forgotten_count, 0u);
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 5, 0)).ok());
  const auto added = std::span(entries).subspan(1'000);
  std::uint64_t epoch = 5;
  // Below a head one that hides others goes with them when it is split, or gets another epoch.
  for (const std::uint64_t last = HasHeads() ? 21 : 5; epoch < last; epoch += 2) {
    commit(*index, epoch, added);
    ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, epoch + 2, 0)).ok());
  }
  commit(*index, epoch, added);
  const auto told = WaitFor(index->AdvanceEpoch(kRepository, epoch + 2, epoch));
  ExpectEpochBefore(*index, told, epoch, epoch + 2);
  const auto other = OpenRedisOn(redis, 0);
  ExpectThere(*other, epoch + 2, old, Verdict::kNew);
  ExpectThere(*other, epoch + 2, added, Verdict::kDuplicate);
  // Below a head they are counted anew once somebody goes through all.
  if (HasHeads()) {
    const auto older = WaitFor(other->ForgetOlder(kRepository, 0, std::nullopt, entries.size()));
    EXPECT_EQ(older->forgotten.epoch, 0u);
  }
  EXPECT_EQ(WaitFor(other->Stats(kRepository))->entry_count, added.size());
}

// Calls that ask for a replica end soon where there is none.
std::unique_ptr<Index> OpenHasty(const TestRedis& redis) {
  RedisIndexOptions options{redis.options(), 1};
  options.base_bits = 2;
  options.layout = LayoutOfTest();
  options.redis.replica_timeout = std::chrono::milliseconds(100);
  options.redis.attempt_timeout = std::chrono::milliseconds(1'000);
  options.redis.command_timeout = std::chrono::milliseconds(400);
  std::vector<std::string> warnings;
  return *RedisIndex::Open(options, &warnings);
}

// The replicas are silent: whatever asks for them fails however often it is repeated, though its
// first attempt has changed the master; a master that fails now takes that with it.
TEST(RedisIndexTest, WhatAnAttemptLeftBehindIsNotAcknowledgedWithoutReplicas) {
  TestRedis redis(TestRedis::Kind::kCluster);
  const auto patient = OpenRedisOn(redis, 1, 2);
  const auto index = OpenHasty(redis);
  Random random(TestSeed());
  const std::vector<IndexEntry> entries = CrowdedEntries(random, 5);
  const auto some = std::span(entries).first(3);
  ASSERT_TRUE(WaitFor(patient->Commit(kRepository, 1, some, false)).ok());
  // It knows by this that the replicas know the repository, which would be enough to refuse it.
  bool knows_repository = false;
  for (int attempt = 0; attempt < 50 && !knows_repository; ++attempt) {
    knows_repository = WaitFor(index->Commit(kRepository, 1, some, true)).ok();
  }
  ASSERT_TRUE(knows_repository);
  const auto each_replica = [&](const std::string& verb) {
    for (const std::string node : {"4", "5", "6"}) redis.Do({verb, node});
  };
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  };
  each_replica("pause");
  for (int attempt = 0; attempt < 3; ++attempt) {
    expect_refused(WaitFor(index->Commit(kRepository, 1, entries, false)));
  }
  // Is there, but nobody knows for how long.
  ExpectThere(*index, 1, entries, Verdict::kDuplicate);
  for (int attempt = 0; attempt < 3; ++attempt) {
    expect_refused(WaitFor(index->Forget(kRepository, some)).status());
  }
  ExpectThere(*index, 1, some, Verdict::kNew);
  // Begins in the base bucket that they are in.
  Digest before;
  before.bytes[0] = 0xAA;
  for (int attempt = 0; attempt < 3; ++attempt) {
    expect_refused(WaitFor(index->ForgetOlder(kRepository, 2, before, 1'000)).status());
  }
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->entry_count, 0u);
  // Each raises some of the four base buckets before it fails; there is nothing to do for the last.
  for (int attempt = 0; attempt < 6; ++attempt) {
    expect_refused(WaitFor(index->AdvanceEpoch(kRepository, 7, 0)).status());
  }
  // Another process, which finds the repository there.
  expect_refused(WaitFor(OpenHasty(redis)->Commit(kRepository, 7, some, false)));
  each_replica("resume");
  EXPECT_TRUE(WaitFor(patient->AdvanceEpoch(kRepository, 7, 0)).ok());
  EXPECT_TRUE(WaitFor(patient->ForgetOlder(kRepository, 2, std::nullopt, 1'000)).ok());
  EXPECT_TRUE(WaitFor(patient->Forget(kRepository, entries)).ok());
  EXPECT_TRUE(WaitFor(patient->Commit(kRepository, 7, entries, false)).ok());
  ExpectThere(*index, 7, entries, Verdict::kDuplicate);
}

// Whoever finds a repository that another process made does not know whether the replicas know of
// it: its first commit sees to that, wherever the entries lie.
TEST(RedisIndexTest, ARepositoryThatWasFoundIsWithReplicasBeforeTheFirstCommit) {
  TestRedis redis(TestRedis::Kind::kCluster);
  Random random(TestSeed());
  const std::vector<IndexEntry> entries = CrowdedEntries(random, 1);
  // One whose own key and whose bucket have different masters; each has a third of the slots.
  RepositoryId repository = kRepository;
  const auto third_of = [](const std::string& key) { return RedisSlotOf(key) / 5462; };
  for (int number = 0;; ++number) {
    repository.name = Cat("photos-", number);
    const std::string tag = RedisTagOf(repository);
    const std::uint32_t base = BaseOf(entries[0].digest, 2);
    if (third_of(MetaKey(tag)) != third_of(BucketKey(tag, base, ""))) break;
  }
  const auto maker = OpenRedisOn(redis, 1, 2);
  ASSERT_TRUE(WaitFor(maker->Commit(repository, 1, entries, false)).ok());
  int refused_count = 0;
  for (const std::string replica : {"4", "5", "6"}) {
    const auto other = OpenHasty(redis);
    redis.Do({"pause", replica});
    refused_count += WaitFor(other->Commit(repository, 1, entries, false)).ok() ? 0 : 1;
    redis.Do({"resume", replica});
    // Waits until the replica is well.
    ASSERT_TRUE(WaitFor(maker->Commit(repository, 1, entries, true)).ok());
  }
  EXPECT_EQ(refused_count, 2);
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
}

TEST(RedisIndexTest, ALogThatMayLackWhatWasAcknowledgedIsToldOf) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto client = *RedisClient::Create(redis.options());
  const auto warnings_with = [&](const std::string& name, const std::string& value) {
    const auto set = WaitFor<absl::StatusOr<RedisReply>>([&](auto done) {
      client->Send({"", std::nullopt, {"CONFIG", "SET", name, value}}, std::move(done));
    });
    EXPECT_EQ(set->text, "OK");
    std::vector<std::string> warnings;
    EXPECT_TRUE(RedisIndex::Open({redis.options()}, &warnings).ok());
    return warnings;
  };
  EXPECT_THAT(warnings_with("appendfsync", "always"), IsEmpty());
  EXPECT_THAT(warnings_with("appendfsync", "everysec"),
              ElementsAre(HasSubstr("appendfsync everysec")));
  EXPECT_THAT(warnings_with("appendonly", "no"), ElementsAre(HasSubstr("no append-only file")));
}

}  // namespace
}  // namespace kerf
