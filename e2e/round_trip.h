// What a test of backups and restores begins with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "client/fs/testing/compare_trees.h"
#include "e2e/world.h"

namespace kerf::e2e {

inline constexpr int kOk = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;
inline constexpr int kPartial = 3;
inline constexpr int kAuthentication = 4;
inline constexpr int kUnavailable = 5;
inline constexpr int kIntegrity = 6;
inline constexpr int kQuota = 7;
inline constexpr int kInterrupted = 130;

// A running kerfd, a folder for a tree and one to restore to, neither of which exists yet.
class RoundTrip : public ::testing::Test {
 protected:
  RoundTrip() : tree_(world_ / "tree"), target_(world_ / "restored") { world_.StartServer(); }

  JsonRun Restore(const std::string& snapshot, std::vector<std::string> flags = {}) {
    std::vector<std::string> arguments = {"restore", snapshot, "--target", target_};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return world_.KerfJson(std::move(arguments));
  }

  void ExpectRestored(const std::string& tree) {
    EXPECT_THAT(agent::testing::CompareTrees(tree, target_ + tree, {.owners = true, .holes = true}),
                ::testing::IsEmpty());
  }

  // The paths that `kerf ls NAME` shows.
  std::vector<std::string> List(const std::string& name) {
    const JsonRun run = world_.KerfJson({"ls", name});
    EXPECT_EQ(run.exit_code, kOk);
    std::vector<std::string> paths;
    for (const nlohmann::json& entry : run.Of("entry")) paths.push_back(entry["path"]);
    return paths;
  }

  World world_;
  const std::string tree_;
  const std::string target_;
};

}  // namespace kerf::e2e
