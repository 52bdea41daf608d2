// Two fronts, three workers and a Redis Cluster: what an agent sees of a cluster, and that its
// answers are those of one process.
#include "e2e/cluster.h"

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

#include "base/strings.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

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

TEST_F(ClusterTest, ABackupCanGoPastTheFront) {
  const nlohmann::json first = world_.Backup({tree_, "--direct"});
  EXPECT_GT(first["streams"], 1);
  EXPECT_EQ(first["direct_streams"], first["streams"]);
  ExpectAllThere();
  // The front may name it for a while.
  ASSERT_TRUE(workers_[2]->Kill());
  const nlohmann::json second = world_.Backup({tree_, "--direct", "--force"});
  EXPECT_EQ(second["index_warning"], "") << second.dump();
  ExpectAllThere();
  const nlohmann::json through = world_.Backup({tree_});
  EXPECT_GT(through["streams"], 0);
  EXPECT_EQ(through["direct_streams"], 0);
}

TEST_F(ClusterTest, WhatAnAgentCutsGoesThroughFrontsAndPastThem) {
  const nlohmann::json first = world_.Backup({tree_, "--cut", "local"});
  EXPECT_GT(first["new_chunks"], 0);
  EXPECT_EQ(first["local_cut_streams"], first["streams"]);
  ExpectAllThere();
  for (const std::vector<std::string>& way :
       {std::vector<std::string>{}, {"--direct"}, {"--direct", "--cut", "local"}}) {
    std::vector<std::string> arguments = {tree_, "--force"};
    arguments.insert(arguments.end(), way.begin(), way.end());
    const nlohmann::json again = world_.Backup(arguments);
    EXPECT_LT(again["new_bytes"], 50'000) << again.dump();
    EXPECT_EQ(again["index_warning"], "") << again.dump();
  }
  EXPECT_EQ(world_.KerfJson({"index", "check"}).exit_code, 0);
}

// Workers have sockets, and the front is met by TCP: it might be another machine's.
TEST_F(ClusterTest, ABackupThatCannotGoPastTheFrontGoesThroughIt) {
  world_.SetEnvironment("KERF_SERVER", world_.LastAddressOf(FrontName(0)));
  const Completed run = world_.Kerf({"backup", tree_, "--direct"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("direct    0 of "), HasSubstr("unix:server/w")));
  ExpectAllThere();
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

TEST_F(ClusterTest, TopShowsEveryWorkerAndWhoIsLost) {
  world_.Backup({tree_});
  const std::vector<std::string> top = {"top", "--once", "--interval", "100ms"};
  const JsonRun all = world_.KerfJson(top);
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_EQ(all.Only("summary")["workers"], kWorkerCount);
  std::uint64_t new_bytes = 0;
  std::set<std::string> names;
  for (const nlohmann::json& worker : all.Of("worker")) {
    EXPECT_EQ(worker["state"], "serving");
    EXPECT_TRUE(worker["ingest_bytes_per_second"].is_number()) << worker;
    names.insert(worker["worker"]);
    new_bytes += worker["new_bytes"].get<std::uint64_t>();
  }
  EXPECT_EQ(names, (std::set<std::string>{"w0", "w1", "w2"}));
  EXPECT_GT(new_bytes, 20'000'000u);
  ASSERT_TRUE(workers_[1]->Kill());
  const JsonRun rest = world_.KerfJson(top);
  EXPECT_EQ(rest.exit_code, 5);
  EXPECT_EQ(rest.Only("summary")["lost_workers"], 1);
  for (const nlohmann::json& worker : rest.Of("worker")) {
    const bool is_lost = worker["address"] == World::AddressOf("w1");
    EXPECT_EQ(worker["state"], is_lost ? "lost" : "serving") << worker;
  }
  EXPECT_THAT(world_.Kerf(top).out, HasSubstr("is lost: "));
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
