// Who is waited for where all masters are, also while slots move.
#include "server/redis/every_master.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/task.h"
#include "base/wait_for.h"
#include "server/redis/redis_client.h"
#include "server/redis/send_all.h"
#include "server/redis/slot.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

RedisReply Ask(RedisClient& client, RedisCommand command) {
  const auto reply = WaitFor<absl::StatusOr<RedisReply>>(
      [&](auto done) { client.Send(std::move(command), std::move(done)); });
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok() ? *reply : RedisReply();
}

// How often it was asked to wait for its replicas.
std::uint64_t WaitCountOf(RedisClient& client, const RedisAddress& master) {
  const std::string stats = Ask(client, {"", master, {"INFO", "commandstats"}}).text;
  constexpr std::string_view kCalls = "cmdstat_wait:calls=";
  const std::size_t at = stats.find(kCalls);
  return at == std::string::npos ? 0 : std::stoull(stats.substr(at + kCalls.size()));
}

Task<RedisReplies> SendEach(RedisClient& client, std::vector<RedisCommand> commands) {
  SendAll send(client, std::move(commands));
  co_return co_await send;
}

// Every `nth` slot of the first of two masters is on its way to the second one.
void BeginMoves(RedisClient& client, const RedisAddress& from, const RedisAddress& to, int nth) {
  const std::string from_id = Ask(client, {"", from, {"CLUSTER", "MYID"}}).text;
  const std::string to_id = Ask(client, {"", to, {"CLUSTER", "MYID"}}).text;
  std::vector<RedisCommand> commands;
  // Each says no to those that are another's.
  for (int slot = 0; slot < kRedisSlotCount; slot += nth) {
    commands.push_back({"", from, {"CLUSTER", "SETSLOT", Cat(slot), "MIGRATING", to_id}});
    commands.push_back({"", to, {"CLUSTER", "SETSLOT", Cat(slot), "IMPORTING", from_id}});
  }
  WaitFor(SendEach(client, std::move(commands)));
}

class MasterWhoseSlotsMoveTest : public ::testing::Test {
 protected:
  MasterWhoseSlotsMoveTest() {
    RedisOptions options = redis_.options_of_kerfd();
    options.command_timeout = std::chrono::seconds(20);
    client_ = *RedisClient::Create(std::move(options));
    const auto masters = WaitFor<absl::StatusOr<std::vector<RedisAddress>>>(
        [&](auto done) { operator_->ReadMasters(std::move(done)); });
    masters_ = *masters;
  }

  const TestRedis redis_{TestRedis::Kind::kCluster};
  const std::unique_ptr<RedisClient> operator_ = *RedisClient::Create(redis_.options());
  std::unique_ptr<RedisClient> client_;
  std::vector<RedisAddress> masters_;
};

// By the one to which a slot goes it would be waited for in vain: it is the master itself whose
// deletions its replicas may lack.
TEST_F(MasterWhoseSlotsMoveTest, ItIsWaitedForItself) {
  BeginMoves(*operator_, masters_[0], masters_[1], 2);
  for (int times = 0; times < 8; ++times) {
    std::vector<std::uint64_t> before;
    before.reserve(masters_.size());
    for (const RedisAddress& master : masters_) {
      before.push_back(WaitCountOf(*operator_, master));
    }
    const absl::Status status = WaitFor(WaitForEveryMaster(*client_, 1));
    ASSERT_TRUE(status.ok()) << status;
    for (std::size_t number = 0; number < masters_.size(); ++number) {
      EXPECT_GT(WaitCountOf(*operator_, masters_[number]), before[number]) << number;
    }
  }
}

TEST_F(MasterWhoseSlotsMoveTest, OneOfWhichAllMoveIsNotWaitedForAndThatIsSaid) {
  BeginMoves(*operator_, masters_[0], masters_[1], 1);
  const absl::Status status = WaitFor(WaitForEveryMaster(*client_, 1));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("are being moved"));
}

TEST_F(MasterWhoseSlotsMoveTest, WhatIsForAMasterIsCarriedOutByNobodyElse) {
  const auto slots = WaitFor<absl::StatusOr<std::vector<MasterSlot>>>(
      [&](auto done) { client_->ReadSlots(std::move(done)); });
  ASSERT_TRUE(slots.ok()) << slots.status();
  ASSERT_EQ(slots->size(), 3u);
  const auto ask = [&](const RedisAddress& master, std::uint16_t slot) {
    RedisCommand command;
    command.key = Cat("kerf.wait:{", RedisNumberIn(slot), "}");
    command.node = master;
    command.is_for_master = true;
    command.arguments = {"EXISTS", command.key};
    return Ask(*client_, std::move(command));
  };
  for (std::size_t number = 0; number < slots->size(); ++number) {
    const MasterSlot& of = (*slots)[number];
    EXPECT_EQ(ask(of.master, of.slot).kind, RedisReply::Kind::kInteger);
    const RedisReply refused = ask((*slots)[(number + 1) % 3].master, of.slot);
    EXPECT_EQ(refused.kind, RedisReply::Kind::kError);
    EXPECT_THAT(refused.text, ::testing::StartsWith("MOVED "));
  }
  BeginMoves(*operator_, masters_[0], masters_[1], 1);
  for (const MasterSlot& of : *slots) {
    const RedisReply reply = ask(of.master, of.slot);
    EXPECT_EQ(reply.kind == RedisReply::Kind::kError, of.master == masters_[0]) << reply.text;
  }
}

}  // namespace
}  // namespace kerf
