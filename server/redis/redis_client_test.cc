// Against real Redis servers, whole ones and ones that are killed, paused and moved about.
#include "server/redis/redis_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <future>
#include <mutex>
#include <thread>

#include "base/strings.h"
#include "server/redis/slot.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

using Result = absl::StatusOr<RedisReply>;

Result Call(RedisClient& client, RedisCommand command) {
  std::promise<Result> answer;
  client.Send(std::move(command), [&](const Result& reply) { answer.set_value(reply); });
  return answer.get_future().get();
}

Result Set(RedisClient& client, const std::string& key, const std::string& value,
           int replica_count = 0) {
  return Call(client, {key, std::nullopt, {"SET", key, value}, replica_count});
}

std::string Get(RedisClient& client, const std::string& key) {
  const Result reply = Call(client, {key, std::nullopt, {"GET", key}});
  return reply.ok() ? reply->text : reply.status().ToString();
}

std::string KeyOf(int number) { return Cat("key ", number); }

// Sends writes without a pause, each with a replica, and remembers which were acknowledged.
class Writers {
 public:
  Writers(RedisClient& client, int count) {
    for (int writer = 0; writer < count; ++writer) {
      threads_.emplace_back([this, &client, writer] {
        for (int number = writer * 1'000'000; !is_stopping_; ++number) {
          const Result reply = Set(client, KeyOf(number), Cat("value ", number), 1);
          const std::lock_guard lock(mutex_);
          if (reply.ok()) {
            acknowledged_.push_back(number);
          } else {
            failures_.push_back(reply.status());
          }
        }
      });
    }
  }
  void Stop() {
    is_stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // Until so many more are acknowledged.
  void WaitForMore(std::size_t count) {
    const std::size_t wanted = acknowledged_count() + count;
    while (acknowledged_count() < wanted) std::this_thread::sleep_for(milliseconds(5));
  }
  std::size_t acknowledged_count() {
    const std::lock_guard lock(mutex_);
    return acknowledged_.size();
  }
  void ExpectAllThere(RedisClient& client) {
    EXPECT_THAT(failures_, ::testing::IsEmpty());
    for (const int number : acknowledged_) {
      ASSERT_EQ(Get(client, KeyOf(number)), Cat("value ", number));
    }
  }

 private:
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;
  std::vector<int> acknowledged_;
  std::vector<absl::Status> failures_;
  std::vector<std::thread> threads_;
};

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

TEST(RedisClientTest, OneRedisNeedsNoCluster) {
  TestRedis redis(TestRedis::Kind::kSingle);
  const auto client = *RedisClient::Create(redis.options());
  for (int number = 0; number < 100; ++number) {
    ASSERT_TRUE(Set(*client, KeyOf(number), Cat(number)).ok());
    EXPECT_EQ(Get(*client, KeyOf(number)), Cat(number));
  }
  const Result error = Call(*client, {"key", std::nullopt, {"NO-SUCH-COMMAND"}});
  ASSERT_TRUE(error.ok());
  EXPECT_EQ(error->kind, RedisReply::Kind::kError);
  // A value of any bytes, and answers of every kind.
  const std::string bytes("\0\r\n$5\r\n\xff", 8);
  ASSERT_TRUE(Set(*client, bytes, bytes).ok());
  EXPECT_EQ(Get(*client, bytes), bytes);
  EXPECT_EQ(Call(*client, {"none", std::nullopt, {"GET", "none"}})->kind, RedisReply::Kind::kNil);
  EXPECT_EQ(Call(*client, {"n", std::nullopt, {"INCRBY", "n", "7"}})->integer, 7);
  const Result many = Call(*client, {"", std::nullopt, {"MGET", "n", "none"}});
  ASSERT_EQ(many->elements.size(), 2u);
  EXPECT_EQ(many->elements[0].text, "7");
  EXPECT_EQ(client->counters().redirects, 0u);
}

TEST(RedisClientTest, AClusterIsFollowedThroughAFailover) {
  TestRedis redis(TestRedis::Kind::kCluster);
  RedisOptions options = redis.options();
  // The others it learns.
  options.seeds.resize(1);
  const auto client = *RedisClient::Create(options);
  for (int number = 0; number < 300; ++number) {
    ASSERT_TRUE(Set(*client, KeyOf(number), Cat(number), 1).ok());
  }
  for (int number = 0; number < 300; ++number) EXPECT_EQ(Get(*client, KeyOf(number)), Cat(number));
  std::promise<std::vector<RedisAddress>> masters;
  client->ReadMasters([&](const auto& answer) { masters.set_value(*answer); });
  EXPECT_EQ(masters.get_future().get().size(), 3u);
  EXPECT_EQ(client->counters().redirects, 0u);

  redis.Do({"failover", "1"});
  for (int number = 0; number < 300; ++number) {
    ASSERT_TRUE(Set(*client, KeyOf(number), Cat("new ", number), 1).ok());
    EXPECT_EQ(Get(*client, KeyOf(number)), Cat("new ", number));
  }
  EXPECT_GT(client->counters().redirects + client->counters().retries, 0u);
}

// What a replica has is there when its master has died.
TEST(RedisClientTest, NothingAcknowledgedIsLostWithAMaster) {
  // One failover: where a busy disk holds a node up for long, it would be taken for dead as well,
  // and the one that was killed take over again before it has what the other one had. What is lost
  // so the index notices (docs/spec/index.md), not its client.
  constexpr int kNodeTimeoutMs = 6000;
  TestRedis redis(TestRedis::Kind::kCluster, "", kNodeTimeoutMs, TestRedis::Log::kAlways);
  const auto client = *RedisClient::Create(redis.options());
  Writers writers(*client, 8);
  writers.WaitForMore(500);
  redis.Do({"kill", "1"});
  // Until its replica is master; then that one needs a replica itself.
  while (redis.Do({"status", "--json"}).find("\"failed master\"") == std::string::npos) {
  }
  redis.Do({"start", "1"});
  writers.WaitForMore(500);
  writers.Stop();
  writers.ExpectAllThere(*client);
  EXPECT_GT(client->counters().retries, 0u);
}

TEST(RedisClientTest, ANodeThatStandsStillIsWaitedFor) {
  TestRedis redis(TestRedis::Kind::kCluster);
  RedisOptions options = redis.options();
  options.attempt_timeout = milliseconds(300);
  options.replica_timeout = milliseconds(100);
  const auto client = *RedisClient::Create(options);
  Writers writers(*client, 4);
  writers.WaitForMore(100);
  redis.Do({"pause", "2"});
  std::this_thread::sleep_for(milliseconds(700));
  redis.Do({"resume", "2"});
  writers.WaitForMore(500);
  writers.Stop();
  writers.ExpectAllThere(*client);
}

// A slot on its way: keys that have gone are asked for at their new node.
TEST(RedisClientTest, ASlotThatMovesIsFollowedKeyByKey) {
  TestRedis redis(TestRedis::Kind::kCluster);
  const auto client = *RedisClient::Create(redis.options());
  const std::string stays = "{slot} stays";
  const std::string goes = "{slot} goes";
  ASSERT_TRUE(Set(*client, stays, "here").ok());
  ASSERT_TRUE(Set(*client, goes, "there").ok());
  const std::string slot = Cat(RedisSlotOf(stays));
  std::promise<std::vector<RedisAddress>> answer;
  client->ReadMasters([&](const auto& masters) { answer.set_value(*masters); });
  std::vector<RedisAddress> masters = answer.get_future().get();
  const auto id_of = [&](const RedisAddress& node) {
    return Call(*client, {"", node, {"CLUSTER", "MYID"}})->text;
  };
  // Its master is the one that has the key.
  const auto owner = std::find_if(masters.begin(), masters.end(), [&](const RedisAddress& node) {
    return Call(*client, {"", node, {"CLUSTER", "COUNTKEYSINSLOT", slot}})->integer == 2;
  });
  ASSERT_NE(owner, masters.end());
  std::iter_swap(masters.begin(), owner);
  const RedisAddress from = masters[0];
  const RedisAddress to = masters[1];
  const auto must = [&](const RedisAddress& node, std::vector<std::string> arguments) {
    const Result reply = Call(*client, {"", node, std::move(arguments)});
    ASSERT_TRUE(reply.ok() && reply->text == "OK") << (reply.ok() ? reply->text : "");
  };
  must(to, {"CLUSTER", "SETSLOT", slot, "IMPORTING", id_of(from)});
  must(from, {"CLUSTER", "SETSLOT", slot, "MIGRATING", id_of(to)});
  must(from, {"MIGRATE", to.host, Cat(to.port), goes, "0", "5000"});
  EXPECT_EQ(Get(*client, stays), "here");
  EXPECT_EQ(Get(*client, goes), "there");
  EXPECT_GT(client->counters().redirects, 0u);
  must(from, {"MIGRATE", to.host, Cat(to.port), stays, "0", "5000"});
  for (const RedisAddress& node : {to, from}) {
    must(node, {"CLUSTER", "SETSLOT", slot, "NODE", id_of(to)});
  }
  EXPECT_EQ(Get(*client, stays), "here");
  EXPECT_EQ(Get(*client, goes), "there");
}

TEST(RedisClientTest, APasswordIsAskedForAndGiven) {
  TestRedis redis(TestRedis::Kind::kSingle, "open sesame");
  const auto client = *RedisClient::Create(redis.options());
  EXPECT_TRUE(Set(*client, "key", "value").ok());
  for (const char* password : {"", "wrong"}) {
    RedisOptions options = redis.options();
    options.password = password;
    const auto stranger = *RedisClient::Create(options);
    const absl::Status status = Set(*stranger, "key", "other").status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(FormatRedisAddress(redis.addresses()[0])));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("sesame")));
  }
  EXPECT_EQ(Get(*client, "key"), "value");
}

// It was started before its rules were set: whoever was refused is let in later.
TEST(RedisClientTest, WhoWasRefusedAsksAgain) {
  TestRedis redis(TestRedis::Kind::kSingle, "open sesame");
  RedisOptions options = redis.options();
  options.username = "kerf";
  const auto early = *RedisClient::Create(options);
  EXPECT_TRUE(absl::IsPermissionDenied(Set(*early, "key", "value").status()));
  const auto owner = *RedisClient::Create(redis.options());
  const Result made = Call(
      *owner, {"", std::nullopt, {"ACL", "SETUSER", "kerf", "on", ">open sesame", "~*", "+@all"}});
  ASSERT_TRUE(made.ok() && made->text == "OK");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!Set(*early, "key", "value").ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(Get(*early, "key"), "value");
}

// A command that changes nothing is not answered before the replicas have what it found.
TEST(RedisClientTest, ARepeatedWriteWaitsToo) {
  TestRedis redis(TestRedis::Kind::kCluster);
  const auto client = *RedisClient::Create(redis.options());
  const auto remove = [&] { return Call(*client, {"key", std::nullopt, {"DEL", "key"}, 1}); };
  ASSERT_TRUE(Set(*client, "key", "value", 1).ok());
  EXPECT_EQ(remove()->integer, 1);
  EXPECT_EQ(remove()->integer, 0);
  // More than there are: an answer would be a lie.
  RedisOptions options = redis.options();
  options.command_timeout = milliseconds(6'000);
  options.replica_timeout = milliseconds(100);
  const auto strict = *RedisClient::Create(options);
  const Result reply = Call(*strict, {"key", std::nullopt, {"DEL", "key"}, 2});
  ASSERT_TRUE(absl::IsUnavailable(reply.status())) << reply.status();
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("1 of 2 replicas"));
}

// Two of the three masters answer all that is theirs.
TEST(RedisClientTest, ANodeThatRefusesSaysNothingOfTheOthers) {
  TestRedis redis(TestRedis::Kind::kCluster);
  const auto owner = *RedisClient::Create(redis.options());
  std::promise<std::vector<RedisAddress>> answer;
  owner->ReadMasters([&](const auto& masters) { answer.set_value(*masters); });
  const std::vector<RedisAddress> masters = answer.get_future().get();
  // The one that is asked first, from now on.
  RedisOptions options = redis.options();
  options.seeds = {masters[0], masters[1], masters[2]};
  options.command_timeout = milliseconds(20'000);
  const Result set =
      Call(*owner, {"", masters[0], {"CONFIG", "SET", "requirepass", "open sesame"}});
  ASSERT_TRUE(set.ok() && set->text == "OK");
  const auto client = *RedisClient::Create(options);
  std::promise<absl::Status> asked;
  client->ReadMasters([&](const auto& again) { asked.set_value(again.status()); });
  EXPECT_TRUE(asked.get_future().get().ok());
  int answered_count = 0;
  for (int number = 0; number < 30; ++number) {
    const Result reply = Call(*client, {KeyOf(number), std::nullopt, {"GET", KeyOf(number)}});
    if (reply.ok()) ++answered_count;
    EXPECT_TRUE(reply.ok() || absl::IsPermissionDenied(reply.status())) << reply.status();
  }
  EXPECT_GT(answered_count, 10);
  EXPECT_LT(answered_count, 30);
}

// A map that was asked for before the call may be older than the call.
TEST(RedisClientTest, MastersAreThoseOfNow) {
  TestRedis redis(TestRedis::Kind::kSingle);
  redis.Do({"pause", "1"});
  const auto client = *RedisClient::Create(redis.options());
  std::promise<std::uint64_t> first;
  client->ReadMasters([&](const auto&) { first.set_value(client->counters().topology_reads); });
  while (client->counters().topology_reads == 0) std::this_thread::sleep_for(milliseconds(1));
  std::promise<std::uint64_t> second;
  client->ReadMasters([&](const auto& masters) {
    EXPECT_TRUE(masters.ok()) << masters.status();
    second.set_value(client->counters().topology_reads);
  });
  // The client has taken the second one by then.
  std::this_thread::sleep_for(milliseconds(100));
  redis.Do({"resume", "1"});
  EXPECT_GT(second.get_future().get(), first.get_future().get());
}

// A name that nobody answers for holds up nothing else.
TEST(RedisClientTest, ANameIsLookedUpBesideTheOthers) {
  TestRedis redis(TestRedis::Kind::kSingle);
  const int port = redis.addresses()[0].port;
  std::promise<void> go_on;
  const auto gate = go_on.get_future().share();
  RedisOptions options;
  options.seeds = {{"silent.test", port}, {"redis.test", port}};
  options.look_up_host = [gate](const std::string& host) {
    if (host == "silent.test") gate.wait();
    return absl::StatusOr<std::vector<std::string>>({"127.0.0.1"});
  };
  {
    const auto client = *RedisClient::Create(options);
    EXPECT_TRUE(Set(*client, "key", "value").ok());
    EXPECT_EQ(Get(*client, "key"), "value");
    options.seeds.resize(1);
    options.command_timeout = milliseconds(200);
    const auto silent = *RedisClient::Create(options);
    const absl::Status status = Set(*silent, "key", "value").status();
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("its name is being looked up"));
    // Neither waits for it when it goes.
  }
  go_on.set_value();
  options.look_up_host = nullptr;
  options.seeds = {{"localhost", port}};
  options.command_timeout = milliseconds(10'000);
  EXPECT_EQ(Get(**RedisClient::Create(options), "key"), "value");
}

TEST(RedisClientTest, OptionsThatContradictEachOtherAreRefused) {
  RedisOptions options;
  options.seeds = {{"127.0.0.1", 1}};
  EXPECT_TRUE(RedisClient::Create(options).ok());
  // For ever, and longer than a node may be silent.
  for (const milliseconds wait : {milliseconds(0), options.attempt_timeout}) {
    RedisOptions contradicting = options;
    contradicting.replica_timeout = wait;
    EXPECT_TRUE(absl::IsInvalidArgument(RedisClient::Create(contradicting).status()));
  }
  options.read_connection_count = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(RedisClient::Create(options).status()));
}

TEST(RedisClientTest, WithoutRedisTheErrorSaysWhatWasTried) {
  RedisOptions options;
  EXPECT_TRUE(absl::IsInvalidArgument(RedisClient::Create(options).status()));
  // Nobody listens on this one.
  options.seeds = {{"127.0.0.1", 1}};
  options.command_timeout = milliseconds(2'000);
  const auto client = *RedisClient::Create(options);
  const absl::Status status = Set(*client, "key", "value").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1: Connection refused"));
  std::promise<absl::Status> masters;
  client->ReadMasters([&](const auto& answer) { masters.set_value(answer.status()); });
  EXPECT_TRUE(absl::IsUnavailable(masters.get_future().get()));
}

// Also who asks on when it is answered.
TEST(RedisClientTest, AClosedClientAnswersAtOnce) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  const auto client = *RedisClient::Create(redis.options());
  ASSERT_TRUE(Set(*client, "key", "value").ok());
  std::atomic<int> answer_count{0};
  const std::function<void()> ask = [&] {
    client->Send({"key", std::nullopt, {"GET", "key"}}, [&](const Result& reply) {
      ++answer_count;
      if (reply.ok()) return ask();
      EXPECT_TRUE(absl::IsCancelled(reply.status())) << reply.status();
    });
  };
  ask();
  while (answer_count == 0) std::this_thread::yield();
  client->Close();
  const int before_count = answer_count;
  EXPECT_TRUE(absl::IsCancelled(Set(*client, "key", "other").status()));
  ask();
  EXPECT_EQ(answer_count, before_count + 1);
  client->Close();
}

TEST(RedisClientTest, WhoGoesAnswersEverything) {
  TestRedis redis(TestRedis::Kind::kSingle);
  std::atomic<int> answered{0};
  for (int round = 0; round < 20; ++round) {
    auto client = *RedisClient::Create(redis.options());
    answered = 0;
    for (int number = 0; number < 1'000; ++number) {
      client->Send({"key", std::nullopt, {"INCR", "key"}, 0}, [&](const Result& reply) {
        EXPECT_TRUE(reply.ok() || absl::IsCancelled(reply.status())) << reply.status();
        ++answered;
      });
    }
    client.reset();
    EXPECT_EQ(answered.load(), 1'000);
  }
}

}  // namespace
}  // namespace kerf
