// kerfd with its index in Redis, and a tree to back up: what tests of that begin with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/fs/testing/compare_trees.h"
#include "e2e/world.h"
#include "server/redis/testing/test_redis.h"

namespace kerf::e2e {

class RedisTest : public testing::Test {
 protected:
  // Less than any part of the index that could be lost by accident would bring back.
  static constexpr std::size_t kMaxFolderBytes = 50'000;
  static constexpr std::size_t kFileBytes = 12'000'000;

  explicit RedisTest(std::size_t file_bytes = kFileBytes) : tree_(world_ / "tree") {
    std::filesystem::create_directory(tree_);
    for (const char* name : {"one", "two", "three"}) AddFile(name, file_bytes);
  }

  void AddFile(const std::string& name, std::size_t size_bytes) {
    std::string content(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteText(tree_ + "/" + name, content);
  }

  std::vector<std::string> Flags(const TestRedis& redis, const std::string& replicas) {
    std::vector<std::string> flags = {"--redis-replicas", replicas};
    for (const RedisAddress& address : redis.addresses()) {
      flags.insert(flags.end(), {"--redis", FormatRedisAddress(address)});
    }
    return flags;
  }

  // Everything once more, as if nothing of it were known to the agent.
  nlohmann::json BackupAll() { return world_.Backup({tree_, "--force"}); }

  void ExpectNothingNew() {
    const nlohmann::json summary = BackupAll();
    // Folders have changed: the times of those above the tree, which other programs write to.
    EXPECT_LT(summary["new_bytes"], kMaxFolderBytes) << summary.dump();
    EXPECT_EQ(summary["index_warning"], "") << summary.dump();
  }

  void ExpectAllThere() {
    const std::string target = world_ / "restored";
    EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
    EXPECT_EQ(world_.Kerf({"restore", "latest", "--target", target}).exit_code, 0);
    EXPECT_THAT(agent::testing::CompareTrees(tree_, target + tree_, {}), testing::IsEmpty());
    std::filesystem::remove_all(target);
  }

  Random random_{TestSeed()};
  World world_;
  const std::string tree_;
};

}  // namespace kerf::e2e
