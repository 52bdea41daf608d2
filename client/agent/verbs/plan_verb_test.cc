#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/agent/command.h"
#include "client/cli/testing/outcome.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

using ::testing::HasSubstr;

class PlanVerbTest : public ::testing::Test {
 protected:
  PlanVerbTest() {
    for (const char* name : {"KERF_CONFIG", "XDG_CONFIG_HOME"}) unsetenv(name);
    setenv("HOME", folder_.path().c_str(), 1);
  }

  Outcome Run(Arguments arguments) { return RunHere(RunCommand, std::move(arguments), cancelled_); }
  Outcome RunJson(Arguments arguments) {
    arguments.insert(arguments.begin(), "plan");
    return RunJsonHere(RunCommand, std::move(arguments), cancelled_);
  }

  testing::TemporaryDirectory folder_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(PlanVerbTest, AnObjectForEachSize) {
  const Outcome outcome = RunJson({"8K", "1EiB", "--average", "8K", "--index", "redis"});
  EXPECT_EQ(outcome.exit_code, 0);
  ASSERT_EQ(outcome.messages.size(), 3u);
  EXPECT_EQ(outcome.messages[0]["message_type"], "plan");
  EXPECT_EQ(outcome.messages[0]["size"], "8K");
  EXPECT_EQ(outcome.messages[0]["chunks"], 1);
  EXPECT_EQ(outcome.messages[0]["walls"].size(), 0u);
  EXPECT_EQ(outcome.messages[1]["chunks"], 0x1p47);
  EXPECT_EQ(outcome.messages[1]["redis_bytes"], 70 * 0x1p47);
  EXPECT_EQ(outcome.messages[1]["walls"][0]["wall"], "agent_memory");
  EXPECT_EQ(outcome.messages[1]["walls"][0]["stops"], true);
  EXPECT_EQ(outcome.messages[2]["plans"], 2);
}

TEST_F(PlanVerbTest, WhatIsNoSizeIsRefused) {
  for (const Arguments& arguments : std::vector<Arguments>{{},
                                                           {"much"},
                                                           {"0"},
                                                           {""},
                                                           {"16E"},
                                                           {"1T", "-1"},
                                                           {"1T", "--dedup", "0.5"},
                                                           {"1T", "--dedup", "nan"},
                                                           {"1T", "--compression", "0"},
                                                           {"1T", "--profile", "none"},
                                                           {"1T", "--average", "12289"},
                                                           {"1T", "--average", "1"},
                                                           {"1T", "--index", "memory"},
                                                           {"1T", "--replicas", "17"},
                                                           {"1T", "--master-memory", "0"},
                                                           {"1T", "--agent-memory", "all"},
                                                           {"1T", "--agents", "0"},
                                                           {"1T", "--streams", "0"},
                                                           {"1T", "--daily", "101"},
                                                           {"1T", "--daily", "nan"},
                                                           {"1T", "--parity", "101"},
                                                           {"1T", "--rate", "0"},
                                                           {"1T", "--store-rate", "0"},
                                                           {"1T", "--window", "8"}}) {
    const Outcome outcome = RunJson(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << ::testing::PrintToString(arguments);
    EXPECT_EQ(outcome.code(), "INVALID_ARGUMENT");
    EXPECT_NE(outcome.message(), "");
  }
  EXPECT_THAT(RunJson({"1T", "--window", "8"}).message(), HasSubstr("--window"));
  EXPECT_THAT(RunJson({"1T", "--average", "1G"}).message(), HasSubstr("--average"));
}

// Each block of docs/capacity.md that begins with "$ kerf plan" is what that prints.
TEST_F(PlanVerbTest, ThePageHasWhatItPrints) {
  std::ifstream page(Cat(std::getenv("TEST_SRCDIR"), "/kerf/docs/capacity.md"));
  constexpr std::string_view kBegin = "$ kerf ";
  std::size_t block_count = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with(kBegin)) continue;
    std::istringstream words(line.substr(kBegin.size()));
    Arguments arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    std::string shown;
    for (std::string shown_line; std::getline(page, shown_line) && shown_line != "```";) {
      shown += shown_line + "\n";
    }
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, shown) << line << " prints something else: bring the page up to date";
    ++block_count;
  }
  EXPECT_EQ(block_count, 2u);
}

}  // namespace
}  // namespace kerf::agent
