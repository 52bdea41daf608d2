// What kerf-lab makes of bad arguments, without a process. e2e/bench_test.cc and
// e2e/analyze_test.cc have the good ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/cli/testing/outcome.h"
#include "client/fs/testing/temporary_directory.h"
#include "client/lab/command.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void WriteFile(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class LabTest : public ::testing::Test {
 protected:
  LabTest() {
    for (const char* name : {"KERF_CONFIG", "KERF_BACKEND", "XDG_CONFIG_HOME"}) unsetenv(name);
    setenv("HOME", folder_.path().c_str(), 1);
  }

  Outcome Run(Arguments arguments) {
    return RunHere(RunLabCommand, std::move(arguments), cancelled_);
  }
  Outcome RunJson(Arguments arguments) {
    return RunJsonHere(RunLabCommand, std::move(arguments), cancelled_);
  }

  testing::TemporaryDirectory folder_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(LabTest, BenchRefusesSizesBeforeItStartsAnything) {
  for (const Arguments& arguments : std::vector<Arguments>{{"--size", "0"},
                                                           {"--size", "17G"},
                                                           {"--size", "much"},
                                                           {"--message", "1"},
                                                           {"--message", "1G"},
                                                           {"--busy-size", ""},
                                                           {"--streams", "0"},
                                                           {"--streams", "1,2,x"},
                                                           {"--rounds", "0"},
                                                           {"--duplicate", "101"},
                                                           {"--profile", "none"},
                                                           {"--digest", "md5"}}) {
    Arguments all = {"bench", "service"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome outcome = RunJson(all);
    EXPECT_EQ(outcome.exit_code, 2) << arguments[0] << " " << arguments[1];
    EXPECT_EQ(outcome.code(), "INVALID_ARGUMENT");
  }
  EXPECT_EQ(RunJson({"bench"}).exit_code, 2);
  EXPECT_EQ(RunJson({"bench", "none"}).exit_code, 2);
}

TEST_F(LabTest, WithoutAPluginThereIsNoGpuToMeasure) {
  const Outcome none = RunJson({"bench", "gpu", "--plugin", "no/such/plugin.so"});
  EXPECT_EQ(none.exit_code, 5);
  EXPECT_EQ(none.code(), "UNAVAILABLE");
  EXPECT_THAT(none.err + none.out, HasSubstr("no/such/plugin.so"));
  EXPECT_EQ(RunJson({"bench", "gpu", "--plugin", "/etc/passwd"}).exit_code, 1);
  EXPECT_EQ(RunJson({"bench", "gpu", "--plugin", ""}).exit_code, 2);
  EXPECT_EQ(RunJson({"bench", "gpu", "--rounds", "0"}).exit_code, 2);
  EXPECT_EQ(RunJson({"bench", "gpu", "--device", "x"}).exit_code, 2);
}

TEST_F(LabTest, SaysWhatItIs) {
  EXPECT_THAT(Run({"--version"}).out, StartsWith("kerf-lab "));
  EXPECT_THAT(Run({"--help"}).out, AllOf(HasSubstr("Usage: kerf-lab "), HasSubstr("analyze"),
                                         HasSubstr("bench"), Not(HasSubstr("backup "))));
  const Outcome nothing = Run({});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, AllOf(HasSubstr("analyze, bench"), HasSubstr("kerf-lab --help")));
}

TEST_F(LabTest, TheSettingsOfKerfAreNoMistakes) {
  const std::string path = folder_ / "config.toml";
  WriteFile(path, "store = \"/backup\"\n[backup]\nstreams = 2\n[analyze]\nseed = 3\n");
  const Outcome fine = RunJson({"analyze", folder_ / "none", "--config", path});
  EXPECT_EQ(fine.exit_code, 1) << fine.message();
  EXPECT_THAT(fine.message(), HasSubstr("cannot read"));
  WriteFile(path, "[analyze]\nseed = \"x\"\n");
  EXPECT_EQ(RunJson({"analyze", folder_ / "none", "--config", path}).exit_code, 2);
  WriteFile(path, "[analyze\n");
  EXPECT_EQ(RunJson({"analyze", folder_ / "none", "--config", path}).exit_code, 2);
}

}  // namespace
}  // namespace kerf::agent
