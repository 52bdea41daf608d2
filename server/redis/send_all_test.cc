// How many commands of one call wait for Redis at a time, in which order they go, and what becomes
// of them when one is not answered.
#include "server/redis/send_all.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/strings.h"
#include "base/task.h"
#include "server/redis/redis_client.h"

namespace kerf {
namespace {

using ::testing::ElementsAre;
using ::testing::Le;

constexpr std::size_t kMaxOpen = 4;

// Answers a command with what it asks, when it is told to.
class HeldRedis final : public RedisClient {
 public:
  void Send(RedisCommand command, Done done) override {
    const std::lock_guard lock(mutex_);
    sent_.push_back(command.arguments.front());
    asked_at_.push_back(command.asked_at);
    held_.push_back({command.arguments.front(), std::move(done)});
    most_held_ = std::max(most_held_, held_.size());
  }

  // The first one that waits. False if none does.
  bool AnswerOne(const absl::Status& status = absl::OkStatus()) {
    Held held;
    {
      const std::lock_guard lock(mutex_);
      if (held_.empty()) return false;
      held = std::move(held_.front());
      held_.pop_front();
    }
    if (!status.ok()) {
      held.done(status);
      return true;
    }
    RedisReply reply;
    reply.kind = RedisReply::Kind::kText;
    reply.text = held.text;
    held.done(std::move(reply));
    return true;
  }

  std::vector<std::string> sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  std::vector<std::optional<std::chrono::steady_clock::time_point>> asked_at() const {
    const std::lock_guard lock(mutex_);
    return asked_at_;
  }
  std::size_t most_held() const {
    const std::lock_guard lock(mutex_);
    return most_held_;
  }

  using RedisClient::ReadMasters;
  void ReadMasters(MastersDone done, std::chrono::milliseconds) override {
    done(absl::UnimplementedError("no cluster"));
  }
  void ReadSlots(SlotsDone done) override { done(absl::UnimplementedError("no cluster")); }
  void Close() override {}
  void ExpectIdentity(std::vector<std::string>) override {}
  RedisCounters counters() const override { return {}; }
  std::optional<std::int64_t> certificate_expires_at_s() const override { return {}; }

 private:
  struct Held {
    std::string text;
    Done done;
  };
  mutable std::mutex mutex_;
  std::vector<std::string> sent_;
  std::vector<std::optional<std::chrono::steady_clock::time_point>> asked_at_;
  std::deque<Held> held_;
  std::size_t most_held_ = 0;
};

// Nobody is there any more: it says so before Send returns.
class ClosedRedis final : public RedisClient {
 public:
  void Send(RedisCommand, Done done) override {
    ++sent_count;
    done(absl::CancelledError("closed"));
  }
  using RedisClient::ReadMasters;
  void ReadMasters(MastersDone done, std::chrono::milliseconds) override {
    done(absl::CancelledError("closed"));
  }
  void ReadSlots(SlotsDone done) override { done(absl::CancelledError("closed")); }
  void Close() override {}
  void ExpectIdentity(std::vector<std::string>) override {}
  RedisCounters counters() const override { return {}; }
  std::optional<std::int64_t> certificate_expires_at_s() const override { return {}; }

  std::size_t sent_count = 0;
};

std::vector<RedisCommand> Numbered(std::size_t count) {
  std::vector<RedisCommand> commands(count);
  for (std::size_t number = 0; number < count; ++number) commands[number].arguments = {Cat(number)};
  return commands;
}

Task<RedisReplies> AskAll(RedisClient& client, std::size_t count) {
  SendAll send(client, Numbered(count), kMaxOpen);
  co_return co_await send;
}

void ExpectAnswered(const RedisReplies& replies, std::size_t count) {
  ASSERT_EQ(replies.size(), count);
  for (std::size_t number = 0; number < count; ++number) {
    ASSERT_TRUE(replies[number].ok()) << replies[number].status();
    EXPECT_EQ(replies[number]->text, Cat(number));
  }
}

TEST(SendAllTest, FewWaitAtATimeAndAllGoInTheirOrder) {
  HeldRedis redis;
  Task<RedisReplies> all = AskAll(redis, 11);
  all.Start();
  EXPECT_THAT(redis.sent(), ElementsAre("0", "1", "2", "3"));
  EXPECT_TRUE(redis.AnswerOne());
  EXPECT_THAT(redis.sent(), ElementsAre("0", "1", "2", "3", "4")) << "one answer, one more";
  while (redis.AnswerOne()) EXPECT_THAT(redis.most_held(), Le(kMaxOpen));
  ASSERT_TRUE(all.is_done());
  ExpectAnswered(all.TakeValue(), 11);
  EXPECT_THAT(redis.sent(), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"));
}

TEST(SendAllTest, NoneIsThere) {
  HeldRedis redis;
  Task<RedisReplies> all = AskAll(redis, 0);
  all.Start();
  ASSERT_TRUE(all.is_done());
  EXPECT_TRUE(all.TakeValue().empty());
}

// Else a Redis that hangs would be waited for once for each few of them.
TEST(SendAllTest, BehindOneThatIsNotAnsweredNoneIsSent) {
  HeldRedis redis;
  Task<RedisReplies> all = AskAll(redis, 11);
  all.Start();
  EXPECT_TRUE(redis.AnswerOne());
  EXPECT_TRUE(redis.AnswerOne(absl::UnavailableError("it hangs")));
  EXPECT_FALSE(all.is_done());
  while (redis.AnswerOne()) {
  }
  ASSERT_TRUE(all.is_done());
  const RedisReplies replies = all.TakeValue();
  EXPECT_EQ(redis.sent().size(), 5U);
  ASSERT_EQ(replies.size(), 11U);
  for (const std::size_t number : {0, 2, 3, 4}) EXPECT_TRUE(replies[number].ok()) << number;
  for (const std::size_t number : {1, 5, 6, 7, 8, 9, 10}) {
    EXPECT_EQ(replies[number].status(), absl::UnavailableError("it hangs")) << number;
  }
}

TEST(SendAllTest, AllHaveTheTimeOfTheFirst) {
  HeldRedis redis;
  Task<RedisReplies> all = AskAll(redis, 6);
  all.Start();
  while (redis.AnswerOne()) {
  }
  const auto asked_at = redis.asked_at();
  ASSERT_EQ(asked_at.size(), 6U);
  for (const auto& at : asked_at) {
    ASSERT_TRUE(at.has_value());
    EXPECT_EQ(at, asked_at.front());
  }
}

TEST(SendAllTest, AnsweredBeforeSendReturns) {
  ClosedRedis redis;
  Task<RedisReplies> all = AskAll(redis, 100'000);
  all.Start();
  ASSERT_TRUE(all.is_done());
  const RedisReplies replies = all.TakeValue();
  EXPECT_EQ(redis.sent_count, 1U);
  ASSERT_EQ(replies.size(), 100'000U);
  for (const auto& reply : replies) ASSERT_EQ(reply.status(), absl::CancelledError("closed"));
}

// As from a client's thread while the others are still sent, and from several.
TEST(SendAllTest, AnsweredFromOtherThreads) {
  for (int round = 0; round < 200; ++round) {
    HeldRedis redis;
    std::mutex mutex;
    bool is_done = false;
    RedisReplies replies;
    const auto answer = [&] {
      while (true) {
        while (redis.AnswerOne()) {
        }
        const std::lock_guard lock(mutex);
        if (is_done) return;
      }
    };
    std::thread first(answer);
    std::thread second(answer);
    const auto ask = [&]() -> Detached {
      RedisReplies given = co_await AskAll(redis, 50);
      const std::lock_guard lock(mutex);
      replies = std::move(given);
      is_done = true;
    };
    ask();
    first.join();
    second.join();
    ExpectAnswered(replies, 50);
  }
}

}  // namespace
}  // namespace kerf
