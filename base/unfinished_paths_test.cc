#include "base/unfinished_paths.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kerf {
namespace {

TEST(UnfinishedPaths, WhatIsNotDoneGoesAndNothingElse) {
  const std::string folder = std::string(std::getenv("TEST_TMPDIR")) + "/paths";
  std::filesystem::create_directories(folder + "/tree/below");
  for (const char* name : {"/done", "/unfinished", "/other", "/tree/below/file"}) {
    std::ofstream(folder + name) << "x";
  }
  AddUnfinishedPath(folder + "/done");
  AddUnfinishedPath(folder + "/unfinished");
  AddUnfinishedPath(folder + "/tree");
  AddUnfinishedPath(folder + "/gone");
  ForgetUnfinishedPath(folder + "/done");
  ForgetUnfinishedPath(folder + "/never added");
  RemoveUnfinishedPaths();
  EXPECT_TRUE(std::filesystem::exists(folder + "/done"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/other"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/unfinished"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/tree"));
  // Each once: what has that name later is another.
  std::ofstream(folder + "/unfinished") << "x";
  RemoveUnfinishedPaths();
  EXPECT_TRUE(std::filesystem::exists(folder + "/unfinished"));
}

}  // namespace
}  // namespace kerf
