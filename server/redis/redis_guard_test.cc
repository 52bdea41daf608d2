// The index in a Redis that is full, that is another one than before, or that begins to throw away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/expect_counts.h"
#include "server/redis/testing/open_redis.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Reply = absl::StatusOr<RedisReply>;

const RepositoryId kRepository{"guarded", DigestAlgorithm::kBlake3};
// Few, so that looking at all of them is quick.
constexpr int kBaseBits = 4;
// A guard against a hang, not a measure.
constexpr std::chrono::seconds kPatience{30};

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

std::vector<IndexEntry> RandomEntries(Random& random, std::size_t count) {
  std::vector<IndexEntry> entries(count);
  for (IndexEntry& entry : entries) {
    random.Fill(entry.digest.bytes);
    entry.length_bytes = 1 + static_cast<std::uint32_t>(random.Below(10'000));
    entry.locator = std::string(20, static_cast<char>('a' + random.Below(26)));
  }
  return entries;
}

// As kerfd is, and looked at often.
std::unique_ptr<RedisIndex> Open(const TestRedis& redis, int replica_count) {
  RedisIndexOptions options{redis.options_of_kerfd(), replica_count};
  options.base_bits = kBaseBits;
  options.layout = LayoutOfTest();
  options.watch.interval = milliseconds(20);
  options.watch.rare_interval = milliseconds(50);
  std::vector<std::string> warnings;
  auto index = RedisIndex::Open(std::move(options), &warnings);
  KERF_CHECK(index.ok());
  return *std::move(index);
}

Reply Ask(RedisClient& client, const RedisAddress& node, std::vector<std::string> arguments) {
  return WaitFor<Reply>(
      [&](auto done) { client.Send({"", node, std::move(arguments)}, std::move(done)); });
}

std::vector<RedisAddress> MastersOf(RedisClient& client) {
  using Masters = absl::StatusOr<std::vector<RedisAddress>>;
  const auto masters = WaitFor<Masters>([&](auto done) { client.ReadMasters(std::move(done)); });
  return masters.ok() ? *masters : std::vector<RedisAddress>();
}

void ExpectVerdict(Index& index, std::uint64_t epoch, const std::vector<IndexEntry>& entries,
                   Verdict verdict) {
  std::vector<Digest> digests;
  digests.reserve(entries.size());
  for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
  std::vector<LookupResult> results(entries.size());
  ASSERT_TRUE(WaitFor(index.Lookup(kRepository, epoch, digests, results)).ok());
  for (const LookupResult& result : results) EXPECT_EQ(result.verdict, verdict);
}

// A collection frees what is full: it forgets, tells moved chunks' places and raises the epoch;
// also a kerfd that has just started, which writes down that it has found the repository.
void ExpectCollectedWhileFull(const TestRedis& redis, int replica_count) {
  Random random(TestSeed());
  const auto first = Open(redis, replica_count);
  std::vector<IndexEntry> kept = RandomEntries(random, 200);
  const std::vector<IndexEntry> garbage = RandomEntries(random, 200);
  ASSERT_TRUE(WaitFor(first->Commit(kRepository, 1, kept, false)).ok());
  ASSERT_TRUE(WaitFor(first->Commit(kRepository, 1, garbage, false)).ok());
  const auto owner = *RedisClient::Create(redis.options());
  const std::vector<RedisAddress> masters = MastersOf(*owner);
  const auto set_max_memory = [&](const char* bytes) {
    for (const RedisAddress& master : masters) {
      ASSERT_EQ(Ask(*owner, master, {"CONFIG", "SET", "maxmemory", bytes})->text, "OK");
    }
  };
  EXPECT_GT(first->memory().used_bytes, 0u);
  EXPECT_FALSE(first->health().is_full);
  set_max_memory("1");
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  const absl::Status refused =
      WaitFor(first->Commit(kRepository, 1, RandomEntries(random, 3), false));
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("Redis is full"));
  ExpectVerdict(*first, 1, kept, Verdict::kDuplicate);
  // That is said before anybody is refused, and is no reason to go elsewhere.
  EXPECT_TRUE(Eventually([&] { return first->memory().full.size() == masters.size(); }));
  EXPECT_TRUE(first->health().is_full);
  EXPECT_TRUE(first->health().status.ok()) << first->health().status;
  EXPECT_THAT(first->health().findings, ElementsAre(HasSubstr("has reached its maxmemory")));
  EXPECT_EQ(first->memory().max_bytes, masters.size());

  const auto index = Open(redis, replica_count);
  const auto raised = WaitFor(index->AdvanceEpoch(kRepository, 2, 0));
  ASSERT_TRUE(raised.ok()) << raised.status();
  ExpectForgotten(*index, WaitFor(index->Forget(kRepository, garbage)), garbage.size());
  for (IndexEntry& entry : kept) entry.locator = std::string(22, 'z');
  const absl::Status moved = WaitFor(index->Commit(kRepository, 2, kept, true));
  ASSERT_TRUE(moved.ok()) << moved;
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 3, 2)).ok());
  const auto older = WaitFor(index->ForgetOlder(kRepository, 2, std::nullopt, 1'000'000));
  ASSERT_TRUE(older.ok()) << older.status();
  ExpectVerdict(*index, 3, kept, Verdict::kDuplicate);
  ExpectVerdict(*index, 3, garbage, Verdict::kNew);
  // Nothing that it has learned has made room for more.
  EXPECT_TRUE(absl::IsResourceExhausted(
      WaitFor(index->Commit(kRepository, 3, RandomEntries(random, 3), false))));
  set_max_memory("0");
  EXPECT_TRUE(Eventually([&] { return !first->health().is_full; }));
  EXPECT_THAT(first->health().findings, IsEmpty());
}

TEST(RedisGuardTest, AFullRedisIsCollected) {
  ExpectCollectedWhileFull(TestRedis(TestRedis::Kind::kSingle), 0);
}

TEST(RedisGuardTest, AFullClusterIsCollectedWithItsReplicas) {
  ExpectCollectedWhileFull(TestRedis(TestRedis::Kind::kCluster), 1);
}

TEST(RedisGuardTest, EvictionThatIsSwitchedOnLaterIsSeen) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto index = Open(redis, 0);
  const auto owner = *RedisClient::Create(redis.options());
  const RedisAddress node = redis.addresses()[0];
  EXPECT_TRUE(index->health().status.ok());
  ASSERT_EQ(Ask(*owner, node, {"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"})->text, "OK");
  ASSERT_TRUE(Eventually([&] { return !index->health().status.ok(); }));
  const absl::Status refused = WaitFor(index->Stats(kRepository)).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("maxmemory-policy allkeys-lru"));
  ASSERT_EQ(Ask(*owner, node, {"CONFIG", "SET", "maxmemory-policy", "noeviction"})->text, "OK");
  ASSERT_TRUE(Eventually([&] { return index->health().status.ok(); }));
  EXPECT_TRUE(WaitFor(index->Stats(kRepository)).ok());
}

// One of three masters does not answer, and nobody takes its place.
TEST(RedisGuardTest, OneMasterThatIsAwayIsALossOfTheIndex) {
  TestRedis redis(TestRedis::Kind::kCluster, "", /*node_timeout_ms=*/60'000);
  RedisIndexOptions options{redis.options_of_kerfd(), 1};
  options.base_bits = kBaseBits;
  options.layout = LayoutOfTest();
  options.redis.attempt_timeout = milliseconds(200);
  options.redis.replica_timeout = milliseconds(100);
  options.watch.interval = milliseconds(20);
  options.watch.times.lost_after = milliseconds(500);
  options.watch.times.back_after = milliseconds(100);
  std::vector<std::string> warnings;
  const auto index = *RedisIndex::Open(std::move(options), &warnings);
  EXPECT_TRUE(index->health().status.ok());
  const std::string name = index->health().identity;
  redis.Do({"pause", "2"});
  ASSERT_TRUE(Eventually([&] { return !index->health().status.ok(); }));
  EXPECT_THAT(std::string(index->health().status.message()),
              HasSubstr(FormatRedisAddress(redis.addresses()[1])));
  redis.Do({"resume", "2"});
  ASSERT_TRUE(Eventually([&] { return index->health().status.ok(); }));
  EXPECT_EQ(index->health().identity, name);
  EXPECT_TRUE(WaitFor(index->Stats(kRepository)).ok());
}

TEST(RedisGuardTest, AnotherIndexAtItsAddressIsNotUsed) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto one = Open(redis, 0);
  const auto two = Open(redis, 0);
  const std::string name = one->health().identity;
  EXPECT_EQ(name.size(), 32u);
  EXPECT_EQ(two->health().identity, name);
  const auto owner = *RedisClient::Create(redis.options());
  const RedisAddress node = redis.addresses()[0];
  const std::string written = Ask(*owner, node, {"GET", kIdentityKey})->text;
  EXPECT_EQ(written, Cat("1 ", name));
  // Somebody else's, and one whose name nobody understands.
  for (const std::string& other : {Cat("1 ", std::string(32, 'f')), std::string("2 later")}) {
    ASSERT_EQ(Ask(*owner, node, {"SET", kIdentityKey, other})->text, "OK");
    ASSERT_TRUE(Eventually([&] { return !one->health().status.ok(); }));
    EXPECT_TRUE(absl::IsUnavailable(WaitFor(one->Stats(kRepository)).status()));
    EXPECT_EQ(one->health().identity, name);
    ASSERT_EQ(Ask(*owner, node, {"SET", kIdentityKey, written})->text, "OK");
    ASSERT_TRUE(Eventually([&] { return one->health().status.ok() && two->health().status.ok(); }));
    EXPECT_TRUE(WaitFor(one->Stats(kRepository)).ok());
  }
}

// All that it knew is gone: it is a new index, which says in whose place it has come, and those who
// knew the old one go on with it, all with the same one. What was committed is NEW.
TEST(RedisGuardTest, AnEmptiedRedisIsANewIndexInThePlaceOfTheOld) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  Random random(TestSeed());
  const auto one = Open(redis, 0);
  const auto two = Open(redis, 0);
  const std::string name = one->health().identity;
  const std::vector<IndexEntry> entries = RandomEntries(random, 20);
  ASSERT_TRUE(WaitFor(one->Commit(kRepository, 1, entries, false)).ok());
  const auto owner = *RedisClient::Create(redis.options());
  const RedisAddress node = redis.addresses()[0];
  const std::string written = Ask(*owner, node, {"GET", kIdentityKey})->text;
  ASSERT_EQ(Ask(*owner, node, {"FLUSHALL"})->text, "OK");
  ASSERT_TRUE(Eventually([&] {
    return one->health().identity != name && one->health().identity == two->health().identity;
  }));
  EXPECT_EQ(Ask(*owner, node, {"GET", kIdentityKey})->text,
            Cat("1 ", one->health().identity, " ", name));
  EXPECT_TRUE(one->health().status.ok());
  ExpectVerdict(*one, 1, entries, Verdict::kNew);
  ExpectVerdict(*two, 1, entries, Verdict::kNew);
  ASSERT_TRUE(WaitFor(two->Commit(kRepository, 1, entries, false)).ok());
  ExpectVerdict(*one, 1, entries, Verdict::kDuplicate);
  // The old one is back: they have both lived with it.
  ASSERT_EQ(Ask(*owner, node, {"SET", kIdentityKey, written})->text, "OK");
  ASSERT_TRUE(
      Eventually([&] { return one->health().identity == name && two->health().identity == name; }));
  EXPECT_TRUE(one->health().status.ok());
}

// A Redis that has nothing to do with the index.
class StrayRedis {
 public:
  explicit StrayRedis(int port) {
    const char* const base = std::getenv("TEST_TMPDIR");
    const std::vector<std::string> words = {"redis-server",
                                            "--port",
                                            Cat(port),
                                            "--bind",
                                            "127.0.0.1",
                                            "--save",
                                            "",
                                            "--dir",
                                            base != nullptr ? base : "/tmp",
                                            "--appendonly",
                                            "no",
                                            "--logfile",
                                            "/dev/null"};
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    KERF_CHECK(posix_spawnp(&pid_, "redis-server", nullptr, nullptr, argv.data(), environ) == 0);
  }
  ~StrayRedis() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

// A node of the cluster has gone, and at its address is somebody else: the map stays that of the
// cluster, whoever is asked for it, and whoever starts says which address is wrong.
TEST(RedisGuardTest, AStrangerAtAnOldAddressIsNotTakenForTheCluster) {
  TestRedis redis(TestRedis::Kind::kCluster);
  // A replica, so that nothing else changes.
  const RedisAddress old = redis.addresses()[3];
  const auto client = *RedisClient::Create(redis.options());
  ASSERT_EQ(MastersOf(*client).size(), 3u);
  redis.Do({"kill", "4"});
  const StrayRedis stray(old.port);
  RedisOptions alone = redis.options();
  alone.seeds = {old};
  const auto there = *RedisClient::Create(alone);
  ASSERT_TRUE(Eventually([&] { return MastersOf(*there).size() == 1; }));
  for (int turn = 0; turn < 3 * 9; ++turn) ASSERT_EQ(MastersOf(*client).size(), 3u);
  ASSERT_EQ(WaitFor<Reply>([&](auto done) {
              client->Send({"key", std::nullopt, {"SET", "key", "value"}}, std::move(done));
            })->text,
            "OK");
  // Who is sent there on purpose is answered by nobody.
  const Reply astray = WaitFor<Reply>([&](auto done) {
    client->Send({"key", old, {"SET", "key", "value"}, 0, milliseconds(300)}, std::move(done));
  });
  EXPECT_THAT(std::string(astray.status().message()), HasSubstr("a single Redis"));

  RedisIndexOptions options{redis.options(), 1};
  options.redis.seeds = {old, redis.addresses()[0]};
  std::vector<std::string> warnings;
  const auto index = RedisIndex::Open(options, &warnings);
  ASSERT_FALSE(index.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(index.status())) << index.status();
  EXPECT_THAT(std::string(index.status().message()),
              testing::AllOf(HasSubstr(FormatRedisAddress(old)), HasSubstr("single Redis")));
}

// Each has an index of its own: nobody can tell which one is meant.
TEST(RedisGuardTest, AddressesOfTwoIndexesAreRefused) {
  const TestRedis one(TestRedis::Kind::kSingle);
  const TestRedis two(TestRedis::Kind::kSingle);
  RedisIndexOptions options{one.options(), 0};
  options.redis.seeds.push_back(two.addresses()[0]);
  std::vector<std::string> warnings;
  // Only one of them has a name yet.
  Open(one, 0);
  EXPECT_TRUE(RedisIndex::Open(options, &warnings).ok());
  Open(two, 0);
  const auto index = RedisIndex::Open(options, &warnings);
  ASSERT_FALSE(index.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(index.status())) << index.status();
  EXPECT_THAT(std::string(index.status().message()), HasSubstr("they have two indexes"));
}

}  // namespace
}  // namespace kerf
