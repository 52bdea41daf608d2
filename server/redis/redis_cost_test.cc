// What a name costs: a repository of one entry, in Redis and in kerfd (docs/performance.md); and
// an entry of a large one (base/index_costs.h).
#include <gtest/gtest.h>
#include <malloc.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/index_costs.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/wait_for.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/open_redis.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/testing/used_memory.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

constexpr std::uint64_t kNameCount = 1'000;
constexpr std::uint64_t kMaxRedisBytes = 2'048;
constexpr std::uint64_t kMaxOwnBytes = 2'048;

RedisReply Ask(RedisClient& client, std::vector<std::string> arguments) {
  auto reply = WaitFor<absl::StatusOr<RedisReply>>(
      [&](auto done) { client.Send({"", std::nullopt, std::move(arguments)}, std::move(done)); });
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok() ? *std::move(reply) : RedisReply();
}

std::uint64_t UsedMemory(RedisClient& client) {
  return UsedMemoryIn(Ask(client, {"INFO", "memory"}).text);
}

// Of all keys that begin with one of a repository's.
std::uint64_t BytesOfKeys(RedisClient& client, const std::string& tag) {
  std::uint64_t bytes = 0;
  for (const RedisReply& key : Ask(client, {"KEYS", Cat("?:{", tag, "*")}).elements) {
    bytes += static_cast<std::uint64_t>(
        Ask(client, {"MEMORY", "USAGE", key.text, "SAMPLES", "0"}).integer);
  }
  return bytes;
}

std::uint64_t OwnBytes() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

RepositoryId Named(std::uint64_t number) {
  // As long as names may be.
  std::string name = Cat("a-name-that-somebody-has-made-up-", number);
  name.resize(kMaxRepositoryNameBytes, 'x');
  return {name, DigestAlgorithm::kBlake3};
}

TEST(RedisCostTest, ARepositoryOfOneEntryCostsLittle) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto client = *RedisClient::Create(redis.options());
  const auto index = OpenRedisOn(redis, 0);
  const auto commit_to = [&](std::uint64_t number) {
    // Agents' locators have 20 bytes.
    IndexEntry entry{{}, 8'192, std::string(20, 'p')};
    Random(number).Fill(entry.digest.bytes);
    const std::vector<IndexEntry> entries = {entry};
    ASSERT_TRUE(WaitFor(index->Commit(Named(number), 1, entries, false)).ok());
  };
  // Connections and scripts are there by then.
  for (std::uint64_t number = 0; number < 10; ++number) commit_to(number);
  const std::uint64_t redis_before = UsedMemory(*client);
  const std::uint64_t own_before = OwnBytes();
  for (std::uint64_t number = 10; number < 10 + kNameCount; ++number) commit_to(number);
  const std::uint64_t own_bytes = (OwnBytes() - own_before) / kNameCount;
  const std::uint64_t redis_bytes = (UsedMemory(*client) - redis_before) / kNameCount;
  std::uint64_t most_key_bytes = 0;
  for (std::uint64_t number = 10; number < 40; ++number) {
    most_key_bytes = std::max(most_key_bytes, BytesOfKeys(*client, RedisTagOf(Named(number))));
  }
  std::printf("a repository of one entry: %llu bytes of Redis, %llu in its keys, %llu of kerfd\n",
              static_cast<unsigned long long>(redis_bytes),
              static_cast<unsigned long long>(most_key_bytes),
              static_cast<unsigned long long>(own_bytes));
  EXPECT_LE(redis_bytes, kMaxRedisBytes);
  EXPECT_LE(most_key_bytes, kMaxRedisBytes);
  EXPECT_LE(own_bytes, kMaxOwnBytes);
}

static_assert(index_costs::kRedisBaseBits == kDefaultBaseBits);
static_assert(index_costs::kRedisMaxPathBits == kMaxPathBits);
static_assert(index_costs::kRedisMaxBucketEntries == kMaxBucketEntries);

TEST(RedisCostTest, AnEntryCostsWhatIsSaid) {
  // Some 49 entries a bucket: two buckets below each base bucket, between half full and full.
  constexpr std::uint64_t kEntryCount = 100'000;
  constexpr std::size_t kBatch = 4'000;
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto client = *RedisClient::Create(redis.options());
  const auto index = OpenRedisOn(redis, 0);
  const RepositoryId repository{std::string(32, 'f'), DigestAlgorithm::kBlake3};
  Random random(1);
  const auto commit = [&](std::size_t count) {
    std::vector<IndexEntry> entries(count);
    for (IndexEntry& entry : entries) {
      random.Fill(entry.digest.bytes);
      entry.length_bytes = 8'192;
      entry.locator.resize(20);
      random.Fill(std::span(reinterpret_cast<std::uint8_t*>(entry.locator.data()), 20));
    }
    ASSERT_TRUE(WaitFor(index->Commit(repository, 1'000, entries, false)).ok());
  };
  // Connections and scripts are there by then.
  commit(1);
  const std::uint64_t before = UsedMemory(*client);
  for (std::uint64_t done = 0; done < kEntryCount; done += kBatch) commit(kBatch);
  const double bytes =
      static_cast<double>(UsedMemory(*client) - before) / static_cast<double>(kEntryCount);
  std::printf("%.1f bytes an entry of Redis\n", bytes);
  EXPECT_NEAR(bytes, index_costs::kRedisBytes, 0.05 * index_costs::kRedisBytes);
}

}  // namespace
}  // namespace kerf
