// kerfd with its index in Redis: what agents see of it, also when it is slow, gone or half dead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "e2e/redis_fixture.h"
#include "e2e/slow_proxy.h"
#include "server/redis/testing/test_redis.h"
#include "server/testing/notify_socket.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kPassword[] = "correct horse battery staple";
// As long as uploads must outlive a Redis that is gone.
constexpr seconds kOutage{30};

class RefusedRedisTest : public RedisTest {
 protected:
  // What a kerfd that is known by this --metrics-ready-file says when it has told what it waits
  // for, or when the patience is over.
  std::string ReadinessOf(const std::string& ready_file, seconds patience) {
    const std::string path = world_ / ready_file;
    const auto deadline = steady_clock::now() + patience;
    std::string said;
    while (said.find("waiting") == std::string::npos && steady_clock::now() < deadline) {
      if (!std::filesystem::exists(path)) continue;
      const std::string address = ReadText(path);
      said = world_
                 .Run({"/usr/bin/python3", "-c",
                       Cat("import http.client\n"
                           "ask = http.client.HTTPConnection('",
                           address.substr(0, address.find('\n')),
                           "')\n"
                           "ask.request('GET', '/readyz')\n"
                           "answer = ask.getresponse()\n"
                           "print(answer.status, answer.read().decode())\n")})
                 .out;
    }
    return said;
  }
};

TEST_F(RedisTest, TwoServersShareACluster) {
  const TestRedis redis(TestRedis::Kind::kCluster, kPassword);
  const std::string password = world_ / "redis.password";
  WriteText(password, Cat(kPassword, "\n"));
  std::vector<std::string> flags = Flags(redis, "1");
  const std::string key = world_ / "hint.key";
  WriteText(key, std::string(32, 'k'));
  chmod(key.c_str(), 0600);
  flags.insert(flags.end(), {"--redis-user", "kerfd", "--redis-password-file", password,
                             "--hint-key-file", key});
  chmod(password.c_str(), 0600);
  world_.StartServer(flags);
  ASSERT_FALSE(HasFatalFailure());
  const nlohmann::json first = BackupAll();
  EXPECT_GT(first["new_chunks"], 0);
  ExpectNothingNew();
  world_.StopServer();

  // Another process, which has nothing but Redis.
  world_.StartServer(flags);
  ASSERT_FALSE(HasFatalFailure());
  ExpectNothingNew();
  // What it has read of the files it has from Redis as well.
  EXPECT_THAT(world_.StopServer(), testing::ContainsRegex("[1-9][0-9]* fetched"));
  world_.StartServer(flags);
  ASSERT_FALSE(HasFatalFailure());
  const JsonRun ping = world_.KerfJson({"ping"});
  EXPECT_EQ(ping.exit_code, 0);
  // The forgotten file's chunks are collected in store and index, the others are still known.
  std::filesystem::remove(tree_ + "/one");
  ExpectNothingNew();
  ASSERT_EQ(world_.Kerf({"forget", "--keep-last", "1"}).exit_code, 0);
  const Completed gc = world_.Kerf({"gc"});
  ASSERT_EQ(gc.exit_code, 0) << gc.err;
  ExpectNothingNew();
  ExpectAllThere();
  world_.StopServer();
}

// All that it knew is gone, while kerfd runs: its index is made again from the store.
TEST_F(RedisTest, AFlushedClusterIsRebuiltFromTheStore) {
  TestRedis redis(TestRedis::Kind::kCluster);
  world_.StartServer(Flags(redis, "1"));
  ASSERT_FALSE(HasFatalFailure());
  BackupAll();
  EXPECT_EQ(world_.KerfJson({"index", "check"}).exit_code, 0);
  redis.Flush();
  const JsonRun lost = world_.KerfJson({"index", "check"});
  EXPECT_EQ(lost.exit_code, 3);
  EXPECT_GT(lost.Only("summary")["chunks"], 100);
  EXPECT_EQ(lost.Only("summary")["missing"], lost.Only("summary")["chunks"]);
  const JsonRun rebuild = world_.KerfJson({"index", "rebuild"});
  EXPECT_EQ(rebuild.exit_code, 0);
  const JsonRun check = world_.KerfJson({"index", "check"});
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_EQ(check.Only("summary")["known"], lost.Only("summary")["chunks"]);
  const nlohmann::json stats = world_.KerfJson({"index", "stats"}).Only("summary");
  EXPECT_EQ(stats["backend"], "redis");
  EXPECT_EQ(stats["epoch_state"], "current");
  EXPECT_EQ(stats["index_entries"], lost.Only("summary")["chunks"]);
  EXPECT_EQ(world_.KerfJson({"index", "export"}).Of("index_entry").size(),
            lost.Only("summary")["chunks"]);
  const nlohmann::json again = BackupAll();
  EXPECT_EQ(again["healed_chunks"], 0) << again.dump();
  EXPECT_LT(again["new_bytes"], kMaxFolderBytes) << again.dump();
  ExpectAllThere();
}

// Of a Redis that takes no more entries a collection is what makes room.
TEST_F(RedisTest, AFullClusterIsCollected) {
  TestRedis redis(TestRedis::Kind::kCluster);
  world_.StartServer(Flags(redis, "1"));
  ASSERT_FALSE(HasFatalFailure());
  const auto entry_count = [this] {
    return world_.KerfJson({"index", "stats"}).Only("summary")["index_entries"].get<int>();
  };
  BackupAll();
  std::filesystem::remove(tree_ + "/one");
  BackupAll();
  ASSERT_EQ(world_.Kerf({"forget", "--keep-last", "1"}).exit_code, 0);
  const int before_count = entry_count();
  redis.TellMasters({"CONFIG", "SET", "maxmemory", "1"});
  const Completed gc = world_.Kerf({"gc"});
  EXPECT_EQ(gc.exit_code, 0) << gc.out << gc.err;
  EXPECT_LT(entry_count(), before_count - 500);
  EXPECT_EQ(world_.KerfJson({"index", "check"}).exit_code, 0);
  redis.TellMasters({"CONFIG", "SET", "maxmemory", "0"});
  ExpectNothingNew();
  ExpectAllThere();
}

TEST_F(RedisTest, AMasterDiesInTheMiddleOfABackup) {
  TestRedis redis(TestRedis::Kind::kCluster);
  world_.StartServer(Flags(redis, "1"));
  ASSERT_FALSE(HasFatalFailure());
  BackupAll();
  for (const char* name : {"four", "five", "six", "seven"}) AddFile(name, kFileBytes);
  const auto backup = world_.Start({"backup", tree_, "--force", "--json"});
  redis.Do({"kill", "1"});
  // Its replica takes over, and gets one of its own: until then nothing is committed there.
  EXPECT_TRUE(redis.WaitUntilReplaced(seconds(30)));
  redis.Do({"start", "1"});
  const Completed end = backup->Wait();
  ASSERT_EQ(end.exit_code, 0) << end.out << end.err;
  ExpectNothingNew();
  ExpectAllThere();
}

// Without replicas to wait for, a failover loses what was acknowledged last. Nothing is stored
// twice, and whoever is told NEW again counts it.
TEST_F(RedisTest, InsertsThatAFailoverLosesAreCounted) {
  TestRedis redis(TestRedis::Kind::kCluster);
  world_.StartServer(Flags(redis, "0"));
  ASSERT_FALSE(HasFatalFailure());
  BackupAll();
  EXPECT_EQ(BackupAll()["healed_chunks"], 0);
  const auto nodes = nlohmann::json::parse(redis.Do({"status", "--json"}))["nodes"];
  const auto replica = std::find_if(nodes.begin(), nodes.end(),
                                    [](const auto& node) { return node["role"] == "replica"; });
  ASSERT_NE(replica, nodes.end());
  const std::string taker = std::to_string((*replica)["node"].get<int>());
  const std::string master = std::to_string((*replica)["master"].get<int>());
  redis.Do({"kill", taker});
  AddFile("four", kFileBytes);
  const nlohmann::json lost = BackupAll();
  EXPECT_GT(lost["new_chunks"], 0);
  redis.Do({"kill", master});
  redis.Do({"start", taker});
  std::string output;
  const auto deadline = steady_clock::now() + seconds(60);
  while (!redis.Try({"failover", taker, "--force"}, output) && steady_clock::now() < deadline) {
  }
  const nlohmann::json healing = BackupAll();
  EXPECT_GT(healing["healed_chunks"], 0) << healing.dump();
  EXPECT_LE(healing["healed_chunks"], lost["new_chunks"]) << healing.dump();
  EXPECT_LT(healing["new_bytes"], kMaxFolderBytes) << healing.dump();
  EXPECT_EQ(BackupAll()["healed_chunks"], 0);
  ExpectNothingNew();
  ExpectAllThere();
}

TEST_F(RedisTest, UploadsOutliveARedisThatIsGone) {
  TestRedis redis(TestRedis::Kind::kSingle);
  world_.StartServer(Flags(redis, "0"));
  ASSERT_FALSE(HasFatalFailure());
  // Its only worker loses the index: nobody would do better, and it is not lost itself.
  const auto front = world_.StartKerfd(
      "f0", {"--role", "front", "--worker-check-ms", "200", "--workers", world_.address()});
  ASSERT_NE(front, nullptr);
  world_.SetEnvironment("KERF_SERVER", World::AddressOf("f0"));
  redis.Do({"pause", "1"});
  const auto began = steady_clock::now();
  const auto backup = world_.Start({"backup", tree_, "--json"});
  // kerfd is not taken down with it.
  EXPECT_EQ(world_.Kerf({"ping"}).exit_code, 0);
  std::this_thread::sleep_until(began + kOutage);
  EXPECT_FALSE(backup->HasEnded());
  redis.Do({"resume", "1"});
  const Completed end = backup->Wait();
  ASSERT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("\"index_warning\":\"\""), HasSubstr("\"resumes\":0")));
  ExpectNothingNew();
  ExpectAllThere();
  // It must have been back for some seconds.
  const auto is_well = [this] {
    const JsonRun top = world_.KerfJson({"top", "--once", "--interval", "100ms"});
    return top.exit_code == 0 && top.Of("worker")[0]["state"] == "serving";
  };
  const auto deadline = steady_clock::now() + kOutage;
  while (!is_well() && steady_clock::now() < deadline) {
  }
  front->Signal(SIGTERM);
  EXPECT_THAT(front->Wait().err,
              AllOf(HasSubstr("no worker has its index"), testing::Not(HasSubstr("is lost"))));
  EXPECT_THAT(world_.StopServer(), AllOf(HasSubstr("the index in Redis cannot be reached"),
                                         HasSubstr("can be reached again")));
}

TEST_F(RedisTest, ASlowRedisOnlyTakesTime) {
  constexpr milliseconds kDelay{5};
  const TestRedis redis(TestRedis::Kind::kSingle);
  // 10 ms there and back.
  const SlowProxy proxy(redis.addresses()[0].port, kDelay);
  world_.StartServer({"--redis-replicas", "0", "--redis", proxy.address()});
  ASSERT_FALSE(HasFatalFailure());
  const nlohmann::json first = BackupAll();
  EXPECT_GT(first["new_chunks"], 0);
  EXPECT_GT(proxy.connection_count(), 0);
  const auto began = steady_clock::now();
  ExpectNothingNew();
  const std::chrono::duration<double> taken = steady_clock::now() - began;
  // Each buffer of half a megabyte is one question, and each file a commit: some 90 of them, if
  // nothing overlaps; with one for each chunk it would be 30 s.
  EXPECT_LT(taken.count(), 10.0);
  ExpectAllThere();
}

TEST_F(RefusedRedisTest, WhatIsWrongWithARedisIsSaid) {
  TestRedis redis(TestRedis::Kind::kSingle, kPassword);
  const std::string address = FormatRedisAddress(redis.addresses()[0]);
  const auto start = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {BuiltProgram("server/kerfd"), "--listen", "unix:server/other",
                                 "--index-timeout-ms", "2000", "--redis", address});
    return world_.Run(flags);
  };
  const std::string password = world_ / "redis.password";
  const auto with_password = [&](std::string_view text, mode_t mode) {
    WriteText(password, std::string(text));
    chmod(password.c_str(), mode);
    return start({"--redis-password-file", password});
  };
  Completed end = start({});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("NOAUTH"));
  end = with_password("not it\n", 0600);
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, AllOf(HasSubstr("WRONGPASS"), testing::Not(HasSubstr("not it"))));
  end = with_password(kPassword, 0644);
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, AllOf(HasSubstr(password), HasSubstr("chmod")));
  EXPECT_THAT(with_password("\n", 0600).err, HasSubstr("first line is empty"));
  EXPECT_THAT(start({"--redis-password-file", "/no/such"}).err, HasSubstr("/no/such"));
  // It has no replicas, and kerfd waits for one unless it is told otherwise.
  end = with_password(kPassword, 0600);
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, AllOf(HasSubstr("0 replicas"), HasSubstr("--redis-replicas")));
  // Two places for one index.
  end = start({"--data-dir", "server/data"});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.err, HasSubstr("--data-dir"));
  // Gone, and nobody waits until it is back.
  redis.Do({"kill", "1"});
  const std::string manager = Cat("@kerf-e2e-redis-", getpid());
  NotifySocket socket(manager);
  world_.SetEnvironment("NOTIFY_SOCKET", manager);
  const auto waiting =
      world_.StartOther({BuiltProgram("server/kerfd"), "--listen", "unix:server/other", "--redis",
                         address, "--redis-password-file", password, "--metrics-listen",
                         "127.0.0.1:0", "--metrics-ready-file", "server/metrics"});
  // Which is said at once, in the log, to who has started it and to who asks whether it is ready.
  EXPECT_THAT(socket.Next().value_or(""),
              AllOf(StartsWith("EXTEND_TIMEOUT_USEC=60000000\n"), HasSubstr("waiting for Redis")));
  const std::string ready = ReadinessOf("server/metrics", seconds(2));
  EXPECT_THAT(ready, AllOf(HasSubstr("503"), HasSubstr("waiting for Redis"), HasSubstr(address)));
  waiting->Signal(SIGTERM);
  end = waiting->Wait();
  EXPECT_NE(end.exit_code, 0);
  EXPECT_THAT(end.err, AllOf(HasSubstr("waiting for Redis"), HasSubstr(address)));
  end = with_password(kPassword, 0600);
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, AllOf(HasSubstr("waited 2000 ms for Redis"), HasSubstr(address)));
}

TEST_F(RefusedRedisTest, AClusterWithoutAQuorumIsRefused) {
  TestRedis redis(TestRedis::Kind::kCluster);
  // Two of three masters: no majority can replace them.
  for (const char* node : {"1", "2"}) redis.Do({"kill", node});
  std::vector<std::string> flags = Flags(redis, "1");
  flags.insert(flags.begin(), {BuiltProgram("server/kerfd"), "--listen", "unix:server/other",
                               "--index-timeout-ms", "1000"});
  // The one that is left needs a while to see it; until then the others just do not answer.
  const auto deadline = steady_clock::now() + seconds(30);
  Completed end;
  do {
    end = world_.Run(flags);
    EXPECT_EQ(end.exit_code, 1);
  } while (end.err.find("no quorum") == std::string::npos && steady_clock::now() < deadline);
  EXPECT_THAT(end.err, HasSubstr("no quorum"));
}

}  // namespace
}  // namespace kerf::e2e
