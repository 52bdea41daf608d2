// Behind which waits an epoch is told where there are heads (docs/adr/0022).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/wait_for.h"
#include "server/index/codec.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_client.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};
constexpr int kBaseBits = 2;

// Writes down in which order an index sends what: a letter for each command, of the repository (r),
// of a base bucket (b), and of the waits for a master's replicas (w).
class ListeningClient final : public RedisClient {
 public:
  ListeningClient(std::unique_ptr<RedisClient> client, std::string_view tag)
      : client_(std::move(client)), meta_(MetaKey(tag)), bucket_(Cat("k:{", tag, ":")) {}

  void Send(RedisCommand command, Done done) override {
    {
      const std::lock_guard lock(mutex_);
      if (command.key == meta_) heard_.push_back('r');
      if (command.key.starts_with(bucket_)) heard_.push_back('b');
      if (command.key.starts_with("kerf.wait:")) heard_.push_back('w');
    }
    client_->Send(std::move(command), std::move(done));
  }
  void ReadMasters(MastersDone done, std::chrono::milliseconds timeout) override {
    client_->ReadMasters(std::move(done), timeout);
  }
  void ReadSlots(SlotsDone done) override { client_->ReadSlots(std::move(done)); }
  void Close() override { client_->Close(); }
  void ExpectIdentity(std::vector<std::string> known) override {
    client_->ExpectIdentity(std::move(known));
  }
  RedisCounters counters() const override { return client_->counters(); }
  std::optional<std::int64_t> certificate_expires_at_s() const override {
    return client_->certificate_expires_at_s();
  }
  // Since it was last asked.
  std::string Heard() {
    const std::lock_guard lock(mutex_);
    return std::exchange(heard_, "");
  }

 private:
  const std::unique_ptr<RedisClient> client_;
  const std::string meta_;
  const std::string bucket_;
  std::mutex mutex_;
  std::string heard_;
};

RedisReply Ask(RedisClient& client, RedisCommand command) {
  const auto reply = WaitFor<absl::StatusOr<RedisReply>>(
      [&](auto done) { client.Send(std::move(command), std::move(done)); });
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok() ? *reply : RedisReply();
}

std::unique_ptr<RedisIndex> OpenListening(const TestRedis& redis, ListeningClient** client) {
  RedisIndexOptions options{redis.options_of_kerfd(), 1};
  options.base_bits = kBaseBits;
  options.layout = RedisLayout::kHeads;
  options.wrap_client = [&](std::unique_ptr<RedisClient> inner) {
    auto listens = std::make_unique<ListeningClient>(std::move(inner), RedisTagOf(kRepository));
    *client = listens.get();
    return listens;
  };
  std::vector<std::string> warnings;
  return *RedisIndex::Open(std::move(options), &warnings);
}

// A replica that takes over may bring back what it has not heard to be gone, and a head that comes
// to it would have that believed. So all deletions are with the replicas of all masters before the
// last look; who takes over before them is seen by it.
TEST(RaiseWaitsTest, AnEpochIsLookedAtBehindAWaitForEveryMaster) {
  const TestRedis redis(TestRedis::Kind::kCluster);
  ListeningClient* client = nullptr;
  const auto index = OpenListening(redis, &client);
  const std::vector<IndexEntry> entries = {{{}, 7, "pack-a"}};
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
  // By now each node knows the scripts.
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 2, 0)).ok());
  client->Heard();
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 3, 2)).ok());
  EXPECT_THAT(client->Heard(), ::testing::MatchesRegex("rbbbbrbwwwrbbbbr+"));
  // One that goes on where another has died behind its heads knows of no wait.
  const auto other = *RedisClient::Create(redis.options());
  const std::string meta = MetaKey(RedisTagOf(kRepository));
  Ask(*other, {meta,
               std::nullopt,
               {"HSET", meta, "epoch", index_codec::EncodeNumber(2), "next",
                index_codec::EncodeNumber(3)}});
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 3, 2)).ok());
  EXPECT_THAT(client->Heard(), ::testing::MatchesRegex("rbbbbwwwrbbbbr+"));
}

// So it is where somebody who knows no heads has written the version.
TEST(RaiseWaitsTest, AnEpochOfBucketsBesideHeadsIsLookedAtBehindAWait) {
  const TestRedis redis(TestRedis::Kind::kCluster);
  ListeningClient* client = nullptr;
  const auto index = OpenListening(redis, &client);
  const std::vector<IndexEntry> entries = {{{}, 7, "pack-a"}};
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 3, 0)).ok());
  const auto other = *RedisClient::Create(redis.options());
  const std::string tag = RedisTagOf(kRepository);
  Ask(*other, {MetaKey(tag), std::nullopt, {"HSET", MetaKey(tag), "version", "1"}});
  for (std::uint32_t base = 1; base < 1u << kBaseBits; ++base) {
    const std::string key = BucketKey(tag, base, "");
    Ask(*other, {key, std::nullopt, {"HSET", key, "e", index_codec::EncodeNumber(3)}});
  }
  client->Heard();
  ASSERT_EQ(WaitFor(index->AdvanceEpoch(kRepository, 3, 3)).value_or(0), 3u);
  EXPECT_THAT(client->Heard(), ::testing::MatchesRegex("rb+wwwrb+r*"));
  // Also by one that hears of heads by its walk alone.
  ListeningClient* later_client = nullptr;
  const auto later = OpenListening(redis, &later_client);
  ASSERT_EQ(WaitFor(later->AdvanceEpoch(kRepository, 3, 3)).value_or(0), 3u);
  EXPECT_THAT(later_client->Heard(), ::testing::HasSubstr("www"));
}

}  // namespace
}  // namespace kerf
