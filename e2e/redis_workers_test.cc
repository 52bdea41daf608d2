// Three workers and a front, and Redis behind them, which one worker cannot reach: it is done
// without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "e2e/network_namespace.h"
#include "e2e/redis_fixture.h"
#include "e2e/slow_proxy.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

class WorkersTest : public RedisTest {
 protected:
  static constexpr int kWorkerCount = 3;

  // Of which some are on their way at once; most of a test is waiting.
  static constexpr std::size_t kSomeBytes = 4'000'000;

  WorkersTest() : RedisTest(kSomeBytes) {
    for (int number = 0; number < 100; ++number) AddFile(Cat("small-", number), 3'000);
  }

  // Null, and a failed test, if it does not start.
  virtual std::unique_ptr<Program> StartWorker(const std::string& name) = 0;
  // The ways of that worker to Redis, or to what it cannot do without.
  virtual SlowProxy& WayOf(int worker) = 0;

  void SetUp() override {
    std::vector<std::string> front = {"--role", "front", "--worker-check-ms", "200"};
    for (int number = 0; number < kWorkerCount; ++number) {
      const std::string name = Cat("w", number);
      workers_.push_back(StartWorker(name));
      ASSERT_NE(workers_.back(), nullptr);
      front.insert(front.end(), {"--workers", World::AddressOf(name)});
    }
    front_ = world_.StartKerfd("f0", front);
    ASSERT_NE(front_, nullptr);
    world_.SetEnvironment("KERF_SERVER", World::AddressOf("f0"));
  }

  JsonRun Top() { return world_.KerfJson({"top", "--once", "--interval", "100ms"}); }
  // The one that the store's streams have met most.
  int BusiestWorker() {
    int busiest = 0;
    std::uint64_t most_bytes = 0;
    for (const nlohmann::json& worker : Top().Of("worker")) {
      const auto bytes = worker["new_bytes"].get<std::uint64_t>();
      if (bytes < most_bytes) continue;
      most_bytes = bytes;
      busiest = worker["worker"].get<std::string>().back() - '0';
    }
    return busiest;
  }

  // A backup while one worker's way loses pieces that are longer than this is one, and soon.
  void ExpectBackedUpWithout(std::int64_t max_piece_bytes,
                             const std::vector<std::string>& flags = {}) {
    BackupAll();
    for (int number = 0; number < 4; ++number) AddFile(Cat("more-", number), kSomeBytes);
    SlowProxy& cut = WayOf(BusiestWorker());
    cut.LoseLongerThan(max_piece_bytes);
    const auto began = steady_clock::now();
    std::vector<std::string> arguments = {tree_};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const nlohmann::json summary = world_.Backup(arguments);
    EXPECT_LT(steady_clock::now() - began, seconds(30));
    EXPECT_EQ(summary["index_warning"], "") << summary.dump();
    ExpectAllThere();
    // Those that come later do not meet it.
    const auto deadline = steady_clock::now() + seconds(30);
    while (Top().Only("summary")["lost_workers"] == 0 && steady_clock::now() < deadline) {
    }
    const auto again = steady_clock::now();
    EXPECT_EQ(BackupAll()["resumes"], 0);
    EXPECT_LT(steady_clock::now() - again, seconds(15));
    cut.LoseNothing();
    // Before its workers, whom it would miss.
    front_->Signal(SIGTERM);
    EXPECT_THAT(front_->Wait().err,
                AllOf(HasSubstr("gets no new calls"), HasSubstr("the index in Redis cannot be"),
                      testing::Not(HasSubstr("no worker has its index"))));
    for (const auto& worker : workers_) worker->Signal(SIGTERM);
    for (const auto& worker : workers_) EXPECT_EQ(worker->Wait().exit_code, 0);
  }

  std::vector<std::unique_ptr<Program>> workers_;
  std::unique_ptr<Program> front_;
};

// One Redis; each worker's way goes through a proxy of its own.
class WorkersOfRedisTest : public WorkersTest {
 protected:
  std::unique_ptr<Program> StartWorker(const std::string& name) override {
    proxies_.push_back(std::make_unique<SlowProxy>(redis_.addresses()[0].port, milliseconds(0)));
    return world_.StartKerfd(name, {"--role", "worker", "--worker-name", name, "--redis-replicas",
                                    "0", "--redis", proxies_.back()->address()});
  }
  SlowProxy& WayOf(int worker) override { return *proxies_[static_cast<std::size_t>(worker)]; }

  TestRedis redis_{TestRedis::Kind::kSingle};
  std::vector<std::unique_ptr<SlowProxy>> proxies_;
};

TEST_F(WorkersOfRedisTest, AWorkerThatIsCutOffFromRedisEndsNoBackup) { ExpectBackedUpWithout(0); }

TEST_F(WorkersOfRedisTest, AWorkerWhosePathLosesLongPacketsEndsNoBackup) {
  ExpectBackedUpWithout(1'400);
}

// Streams past the front, which ends none of them.
TEST_F(WorkersOfRedisTest, AWorkerThatIsCutOffFromRedisEndsNoDirectBackup) {
  ExpectBackedUpWithout(0, {"--direct"});
}

// A cluster of three masters, and workers in networks of their own, each with a way to each node of
// the cluster: Redis itself says where its nodes are, so that a proxy beside them would be met
// once.
class WorkersOfClusterTest : public WorkersTest {
 protected:
  std::unique_ptr<Program> StartWorker(const std::string& name) override {
    Ways& ways = ways_.emplace_back(std::make_unique<Network>());
    for (const RedisAddress& node : redis_.addresses()) {
      ways->to_node.push_back(
          std::make_unique<SlowProxy>(node.port, milliseconds(0), ways->network));
    }
    std::vector<std::string> flags = Flags(redis_, "1");
    flags.insert(flags.end(), {"--role", "worker", "--worker-name", name});
    const NetworkNamespace::Scope inside(ways->network);
    return world_.StartKerfd(name, flags);
  }
  // To the first master: the others go on.
  SlowProxy& WayOf(int worker) override {
    const auto nodes = nlohmann::json::parse(redis_.Do({"status", "--json"}))["nodes"];
    std::size_t master = 0;
    while (nodes[master]["role"] != "master") ++master;
    const auto number = nodes[master]["node"].get<std::size_t>();
    return *ways_[static_cast<std::size_t>(worker)]->to_node[number - 1];
  }

 private:
  struct Network {
    NetworkNamespace network;
    std::vector<std::unique_ptr<SlowProxy>> to_node;
  };
  using Ways = std::unique_ptr<Network>;

  TestRedis redis_{TestRedis::Kind::kCluster};
  std::vector<Ways> ways_;
};

TEST_F(WorkersOfClusterTest, AWorkerThatIsCutOffFromOneMasterOfThreeEndsNoBackup) {
  ExpectBackedUpWithout(0);
}

}  // namespace
}  // namespace kerf::e2e
