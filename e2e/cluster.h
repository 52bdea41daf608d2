// Two fronts, three workers and a Redis Cluster: what tests of a whole cluster begin with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/fs/testing/compare_trees.h"
#include "e2e/world.h"
#include "server/edge/testing/test_upload.h"
#include "server/redis/testing/test_redis.h"

namespace kerf::e2e {

// All of it runs, and there is a tree of small and large files to back up.
class ClusterTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kPatience{30};
  static constexpr int kWorkerCount = 3;
  static constexpr int kFrontCount = 2;

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
    std::vector<std::string> flags = {"--role",   "front",       "--worker-check-ms", "200",
                                      "--listen", "127.0.0.1:0", "--log-level",       "debug"};
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
    EXPECT_THAT(agent::testing::CompareTrees(tree_, target + tree_, {}), ::testing::IsEmpty());
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

  static inline std::unique_ptr<TestRedis> redis;

  Random random_{TestSeed()};
  World world_;
  const std::string tree_;
  std::vector<std::unique_ptr<Program>> workers_;
  std::vector<std::unique_ptr<Program>> fronts_;
};

}  // namespace kerf::e2e
