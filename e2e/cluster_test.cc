// Two fronts, three workers and a Redis Cluster: what an agent sees of a cluster, and that its
// answers are those of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/agent/fs/testing/compare_trees.h"
#include "e2e/world.h"
#include "server/front/testing/test_upload.h"
#include "server/redis/testing/test_redis.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr seconds kPatience{30};
constexpr int kWorkerCount = 3;
constexpr int kFrontCount = 2;

class ClusterTest : public testing::Test {
 protected:
  // It takes seconds to start, so that all tests have the same one, emptied.
  static void SetUpTestSuite() { redis = std::make_unique<TestRedis>(TestRedis::Kind::kCluster); }
  static void TearDownTestSuite() { redis.reset(); }

  ClusterTest() : tree_(world_ / "tree") {
    std::filesystem::create_directory(tree_);
    for (int number = 0; number < 40; ++number)
      AddFile(Cat("small-", number), random_.Below(30'000));
    for (int number = 0; number < 4; ++number) AddFile(Cat("large-", number), 5'000'000);
  }

  void SetUp() override {
    redis->Flush();
    for (int number = 0; number < kWorkerCount; ++number) {
      StartWorker(number);
      ASSERT_NE(workers_[number], nullptr);
    }
    for (int number = 0; number < kFrontCount; ++number) {
      StartFront(number);
      ASSERT_NE(fronts_[number], nullptr);
    }
    UseFront(0);
  }

  static std::string WorkerName(int number) { return Cat("w", number); }
  static std::string FrontName(int number) { return Cat("f", number); }

  void StartWorker(int number) {
    workers_.resize(kWorkerCount);
    std::vector<std::string> flags = {"--role", "worker", "--worker-name", WorkerName(number)};
    for (const RedisAddress& address : redis->addresses()) {
      flags.insert(flags.end(), {"--redis", FormatRedisAddress(address)});
    }
    workers_[number] = world_.StartKerfd(WorkerName(number), flags);
  }
  void StartFront(int number) {
    fronts_.resize(kFrontCount);
    // The test's own connections need a short address.
    std::vector<std::string> flags = {"--role", "front",    "--worker-check-ms",
                                      "200",    "--listen", "127.0.0.1:0"};
    for (int worker = 0; worker < kWorkerCount; ++worker) {
      flags.insert(flags.end(), {"--workers", World::AddressOf(WorkerName(worker))});
    }
    fronts_[number] = world_.StartKerfd(FrontName(number), flags);
  }
  // For the runs of kerf from here on.
  void UseFront(int number) {
    world_.SetEnvironment("KERF_SERVER", World::AddressOf(FrontName(number)));
  }
  std::shared_ptr<grpc::Channel> ConnectToFront(int number) {
    return ConnectTo(world_.LastAddressOf(FrontName(number)));
  }

  void AddFile(const std::string& name, std::size_t size_bytes) {
    WriteText(tree_ + "/" + name, RandomContent(size_bytes));
  }
  std::string RandomContent(std::size_t size_bytes) {
    std::string content(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    return content;
  }
  void ExpectAllThere() { ExpectAllThereIn(world_.store()); }
  void ExpectAllThereIn(const std::string& store) {
    const std::string target = world_ / "restored";
    EXPECT_EQ(world_.Kerf({"verify", "--read-data", "--store", store}).exit_code, 0);
    EXPECT_EQ(world_.Kerf({"restore", "latest", "--store", store, "--target", target}).exit_code,
              0);
    EXPECT_THAT(agent::testing::CompareTrees(tree_, target + tree_, {}), IsEmpty());
    std::filesystem::remove_all(target);
  }
  // Whom a stream with this key meets; empty if it meets nobody.
  static std::string WorkerOf(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& key) {
    TestUpload upload(channel, /*read=*/true, key);
    upload.SendOpen(OpenFor("routing"));
    const auto opened = upload.WaitForAnswer(&v1::UploadAnswer::has_opened);
    return opened.has_value() ? opened->opened().worker() : "";
  }

  static std::unique_ptr<TestRedis> redis;

  Random random_{TestSeed()};
  World world_;
  const std::string tree_;
  std::vector<std::unique_ptr<Program>> workers_;
  std::vector<std::unique_ptr<Program>> fronts_;
};

std::unique_ptr<TestRedis> ClusterTest::redis;

TEST_F(ClusterTest, ABackupThroughAFrontIsABackup) {
  const nlohmann::json first = world_.Backup({tree_});
  EXPECT_GT(first["new_chunks"], 0);
  ExpectAllThere();
  // The other front has the same workers, and they the same index.
  UseFront(1);
  const nlohmann::json again = world_.Backup({tree_, "--force"});
  EXPECT_EQ(again["index_warning"], "") << again.dump();
  // Folders have changed: the times of those above the tree, which other programs write to.
  EXPECT_LT(again["new_bytes"], 50'000) << again.dump();
  // The other services pass through, too.
  EXPECT_EQ(world_.KerfJson({"index", "check"}).exit_code, 0);
  std::filesystem::remove(tree_ + "/large-0");
  world_.Backup({tree_});
  EXPECT_EQ(world_.Kerf({"forget", "--keep-last", "1"}).exit_code, 0);
  EXPECT_EQ(world_.Kerf({"gc"}).exit_code, 0);
  ExpectAllThere();
  for (const auto& part : fronts_) {
    part->Signal(SIGTERM);
    EXPECT_EQ(part->Wait().exit_code, 0);
  }
}

TEST_F(ClusterTest, RecipesAreThoseOfOneProcess) {
  // With an index of its own.
  world_.StartServer({"--listen", "127.0.0.1:0"});
  ASSERT_FALSE(HasFatalFailure());
  const auto alone = ConnectTo(world_.last_address());
  const v1::Open open = OpenFor("recipes");
  for (int number = 0; number < 6; ++number) {
    // Some that are new, and one that is an edited version of the one before.
    static std::string content;
    if (number % 2 == 0) content = RandomContent(1 + random_.Below(2'000'000));
    if (number % 2 == 1) content.insert(content.size() / 2, "an edit");
    const auto recipe_of = [&](const std::shared_ptr<grpc::Channel>& channel) {
      TestUpload upload(channel, /*read=*/true, Cat("file-", number / 2));
      EXPECT_TRUE(upload.SendOpen(open) && upload.SendFile(content, 100'000));
      EXPECT_TRUE(upload.WaitForChunks(1, content.size()));
      EXPECT_TRUE(upload.CommitAnswered());
      EXPECT_TRUE(upload.WaitForDone(1));
      upload.WritesDone();
      EXPECT_TRUE(upload.WaitForEnd().ok());
      return upload.RecipeOf(1);
    };
    const std::vector<RecipeChunk> recipe = recipe_of(alone);
    EXPECT_EQ(recipe, PlainRecipe(content, open));
    EXPECT_EQ(recipe_of(ConnectToFront(number % kFrontCount)), recipe);
  }
}

TEST_F(ClusterTest, BothFrontsSendAFileToTheSameWorker) {
  const auto left = ConnectToFront(0);
  const auto right = ConnectToFront(1);
  std::set<std::string> met;
  for (int number = 0; number < 30; ++number) {
    const std::string key = Cat("file-", number);
    const std::string worker = WorkerOf(left, key);
    EXPECT_EQ(WorkerOf(right, key), worker);
    met.insert(worker);
  }
  EXPECT_EQ(met, (std::set<std::string>{"w0", "w1", "w2"}));
}

TEST_F(ClusterTest, APingSaysWhichWorkerAnswers) {
  const nlohmann::json said = world_.KerfJson({"ping"}).Only("summary");
  EXPECT_THAT(said["worker"], testing::AnyOf("w0", "w1", "w2"));
  // All of its calls meet that one, and those of the next ping, too.
  EXPECT_EQ(said["worker_address"], World::AddressOf(said["worker"]));
  EXPECT_EQ(world_.KerfJson({"ping"}).Only("summary")["worker"], said["worker"]);
  EXPECT_THAT(world_.Kerf({"ping"}).out, HasSubstr("is a front, which asked worker w"));
}

TEST_F(ClusterTest, ALostWorkerLosesItsKeysOnly) {
  const auto channel = ConnectToFront(0);
  constexpr int kKeyCount = 60;
  std::vector<std::string> before;
  before.reserve(kKeyCount);
  for (int number = 0; number < kKeyCount; ++number) {
    before.push_back(WorkerOf(channel, Cat("file-", number)));
  }
  workers_[1]->Kill();
  const auto deadline = steady_clock::now() + kPatience;
  for (int number = 0; number < kKeyCount;) {
    const std::string worker = WorkerOf(channel, Cat("file-", number));
    if (worker.empty() && steady_clock::now() < deadline) {
      // The front has not noticed yet.
      std::this_thread::sleep_for(milliseconds(10));
      continue;
    }
    EXPECT_FALSE(worker.empty());
    if (before[number] == "w1") {
      EXPECT_NE(worker, "w1");
    } else {
      EXPECT_EQ(worker, before[number]);
    }
    ++number;
  }
  // It comes back, and has its keys again.
  StartWorker(1);
  // However long that took.
  const auto back_deadline = steady_clock::now() + kPatience;
  for (int number = 0; number < kKeyCount; ++number) {
    std::string worker;
    while ((worker = WorkerOf(channel, Cat("file-", number))) != before[number] &&
           steady_clock::now() < back_deadline) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(worker, before[number]);
  }
}

// Whichever workers the agent's streams are at: one after the other is killed and comes back while
// it runs.
TEST_F(ClusterTest, KilledWorkersEndNoBackup) {
  for (int number = 4; number < 12; ++number) AddFile(Cat("large-", number), 12'000'000);
  const auto backup = world_.Start({"backup", tree_, "--json"});
  for (int number = 0; number < kWorkerCount; ++number) {
    std::this_thread::sleep_for(milliseconds(300));
    workers_[number]->Kill();
    StartWorker(number);
  }
  const Completed end = backup->Wait();
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  ExpectAllThere();
  // The recipes are those of a run that nobody disturbed.
  EXPECT_LT(world_.Backup({tree_, "--force"})["new_bytes"], 50'000);
  EXPECT_EQ(world_.KerfJson({"index", "check"}).exit_code, 0);
}

// Workers wait until its replica has taken over, and until that one has a replica of its own,
// without which nothing is committed there; their streams and fronts do not notice.
TEST_F(ClusterTest, AMasterOfRedisDiesUnderLoad) {
  for (int number = 4; number < 8; ++number) AddFile(Cat("large-", number), 12'000'000);
  const std::string other_store = world_ / "other-store";
  const auto left = world_.Start({"backup", tree_, "--json"});
  UseFront(1);
  const auto right = world_.Start({"backup", tree_, "--json", "--store", other_store});
  redis->Do({"kill", "1"});
  EXPECT_TRUE(redis->WaitUntilReplaced(kPatience));
  redis->Do({"start", "1"});
  for (const auto* agent : {&left, &right}) {
    const Completed end = (*agent)->Wait();
    EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  }
  ExpectAllThere();
  ExpectAllThereIn(other_store);
  // Nothing that was answered was forgotten.
  const nlohmann::json again = world_.Backup({tree_, "--force"});
  EXPECT_EQ(again["index_warning"], "") << again.dump();
  EXPECT_EQ(again["healed_chunks"], 0) << again.dump();
}

TEST_F(ClusterTest, AFrontThatStopsTellsItsStreams) {
  const auto channel = ConnectToFront(0);
  TestUpload upload(channel, /*read=*/true, "a-file");
  ASSERT_TRUE(upload.SendOpen(OpenFor("drain")));
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  const std::string content = RandomContent(500'000);
  ASSERT_TRUE(upload.SendFrame([&](v1::UploadFrame& frame) { frame.set_data(content); }));
  ASSERT_TRUE(upload.WaitForChunks(1, 100'000));
  fronts_[0]->Signal(SIGTERM);
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_go_away).has_value());
  ASSERT_TRUE(upload.CommitAnswered());
  const auto committed = upload.WaitForAnswer(&v1::UploadAnswer::has_committed);
  ASSERT_TRUE(committed.has_value());
  const std::uint64_t durable = committed->committed().files(0).durable_offset();
  EXPECT_GE(durable, 100'000u);
  upload.WritesDone();
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "DRAINING");
  EXPECT_EQ(fronts_[0]->Wait().exit_code, 0);
  // The other front goes on from there.
  TestUpload resumed(ConnectToFront(1), /*read=*/true, "a-file");
  ASSERT_TRUE(resumed.SendOpen(OpenFor("drain")));
  ASSERT_TRUE(resumed.SendFile(std::string_view(content).substr(durable), 50'000, durable));
  resumed.WritesDone();
  EXPECT_TRUE(resumed.WaitForEnd().ok());
  std::vector<RecipeChunk> recipe = upload.RecipeOf(1);
  std::erase_if(recipe, [&](const RecipeChunk& chunk) { return chunk.end_offset > durable; });
  const std::vector<RecipeChunk> rest = resumed.RecipeOf(1);
  recipe.insert(recipe.end(), rest.begin(), rest.end());
  EXPECT_EQ(recipe, PlainRecipe(content, OpenFor("drain")));
}

TEST_F(ClusterTest, AFrontWithoutWorkersSaysSo) {
  for (const auto& worker : workers_) worker->Kill();
  const Completed end = world_.Kerf({"backup", tree_, "--retry-for", "1s"});
  EXPECT_EQ(end.exit_code, 5);
  EXPECT_THAT(end.err, HasSubstr("worker"));
}

}  // namespace
}  // namespace kerf::e2e
