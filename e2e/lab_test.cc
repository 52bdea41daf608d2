// `kerf bench` and `kerf analyze` start kerf-lab: where they look for it, and what is said without
// it. What it does has tests of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/strings.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kOk = 0;
constexpr int kUsage = 2;
constexpr int kUnavailable = 5;

class Lab : public ::testing::Test {
 protected:
  Lab() {
    std::filesystem::create_directory(world_ / "bin");
    CopyProgram("client/agent/kerf", world_ / "bin/kerf");
  }

  static void CopyProgram(const std::string& program, const std::string& to) {
    std::filesystem::copy_file(std::filesystem::canonical(BuiltProgram(program)), to);
  }
  void AddLab(const std::string& folder) {
    std::filesystem::create_directories(world_ / folder);
    CopyProgram("client/agent/kerf-lab", world_ / (folder + "/kerf-lab"));
  }

  // By the kerf that was copied.
  Completed Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), world_ / "bin/kerf");
    return world_.Run(arguments);
  }

  World world_;
  const std::vector<std::string> kernels_ = {"bench",  "kernels", "--algorithm", "ram",
                                             "--size", "1M",      "--rounds",    "1"};
};

TEST_F(Lab, IsMissedInWordsThatHelp) {
  const Completed missed = Run(kernels_);
  EXPECT_EQ(missed.exit_code, kUnavailable);
  EXPECT_EQ(missed.out, "");
  EXPECT_THAT(missed.err,
              AllOf(HasSubstr("kerf-lab"), HasSubstr(world_ / "bin/"), HasSubstr("PATH")));
  const Completed json = Run({"analyze", ".", "--json"});
  EXPECT_EQ(json.exit_code, kUnavailable);
  EXPECT_THAT(json.out, AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("kerf-lab")));
}

TEST_F(Lab, HelpAndUsageDoNotNeedIt) {
  EXPECT_THAT(Run({"bench", "service", "--help"}).out, HasSubstr("--busy-streams"));
  EXPECT_THAT(Run({"completion", "bash"}).out, HasSubstr("--busy-streams"));
  EXPECT_EQ(Run({"bench", "service", "--rounds", "0"}).exit_code, kUsage);
}

TEST_F(Lab, IsFoundBesideKerfAndInPath) {
  AddLab("path");
  world_.SetEnvironment("PATH", Cat("/none:", world_ / "path", ":/usr/bin:/bin"));
  EXPECT_EQ(Run(kernels_).exit_code, kOk);
  // What is beside kerf goes first.
  WriteText(world_ / "bin/kerf-lab", "#!/bin/sh\necho \"$@\"\nexit 77\n");
  std::filesystem::permissions(world_ / "bin/kerf-lab", std::filesystem::perms::owner_all);
  const Completed beside = Run(kernels_);
  EXPECT_EQ(beside.exit_code, 77);
  EXPECT_EQ(beside.out, "bench kernels --algorithm ram --size 1M --rounds 1\n");
}

TEST_F(Lab, KerfMayHaveSettingsThatItDoesNotHave) {
  AddLab("bin");
  WriteText(world_ / "config.toml",
            "store = \"/backup\"\n[backup]\nstreams = 2\n[analyze]\naverage = [\"4K\"]\n"
            "algorithm = [\"fixed\"]\n");
  WriteText(world_ / "file", std::string(100'000, 'x'));
  const Completed run = Run({"--config", "config.toml", "analyze", "file", "--json"});
  EXPECT_EQ(run.exit_code, kOk) << run.err << run.out;
  EXPECT_THAT(run.out, HasSubstr("fixed:size=4096"));
}

TEST_F(Lab, AProgramThatCannotRunIsSaidToBeOne) {
  WriteText(world_ / "bin/kerf-lab",
            "\x7f"
            "ELF and no more");
  std::filesystem::permissions(world_ / "bin/kerf-lab", std::filesystem::perms::owner_all);
  const Completed run = Run(kernels_);
  EXPECT_EQ(run.exit_code, kUnavailable);
  EXPECT_THAT(run.err, AllOf(HasSubstr("cannot run"), HasSubstr(world_ / "bin/kerf-lab")));
}

}  // namespace
}  // namespace kerf::e2e
