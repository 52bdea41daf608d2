// The script that is carried to a machine with a GPU, with a program in gpu_check's place that ends
// as it is told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/strings.h"
#include "kernels/cuda/check/shell_command.h"

namespace kerf::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    std::string pattern = Cat(::testing::TempDir(), "/runXXXXXX");
    folder_ = mkdtemp(pattern.data());
    std::filesystem::copy_file("kernels/cuda/check/run.sh", folder_ + "/run");
  }
  ~RunTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& script) {
    const std::string path = Cat(folder_, "/", name);
    std::ofstream(path) << "#!/bin/bash\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  CommandOutcome Start(const std::string& arguments) {
    // A sanitizer of CUDA's is looked for in the folder alone.
    return RunCommand(Cat("cd ", folder_, " && PATH=", folder_,
                          "/bin:/usr/bin:/bin CUDA_HOME=/none ./run ", arguments));
  }

  std::string folder_;
};

TEST_F(RunTest, AllStepsPass) {
  std::filesystem::create_directory(folder_ + "/bin");
  Write("bin/compute-sanitizer", R"(echo "sanitizer $2"; shift 4; exec "$@")");
  Write("gpu_check", R"(echo "$@")");
  const CommandOutcome outcome = Start("--seconds 7 --seed 5 --device 1 --out logs");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("self-test vectors --device 1"));
  EXPECT_THAT(outcome.text, HasSubstr("fuzz --seconds 7 --seed 5 --device 1"));
  EXPECT_THAT(outcome.text,
              HasSubstr("checks: passed\nmemcheck: passed\nracecheck: passed\nsynccheck: passed\n"
                        "initcheck: passed\nbench: passed\nfuzz: passed\n"));
  for (const char* tool : {"memcheck", "racecheck", "synccheck", "initcheck"}) {
    std::ifstream log(Cat(folder_, "/logs/", tool, ".log"));
    std::string line;
    std::getline(log, line);
    EXPECT_EQ(line, Cat("sanitizer ", tool));
    std::getline(log, line);
    EXPECT_THAT(line, HasSubstr("--small"));
  }
}

TEST_F(RunTest, WhatFailsIsSaidAndTheRestRuns) {
  const std::string_view codes[] = {"1", "6", "9"};
  for (const std::string_view code : codes) {
    Write("gpu_check", Cat("[ $1 != self-test ] || exit ", code));
    const CommandOutcome outcome = Start("");
    EXPECT_EQ(outcome.code, code == "6" ? 6 : 1) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("checks: FAILED: "));
    EXPECT_THAT(outcome.text, HasSubstr("memcheck, racecheck, synccheck, initcheck: NOT RUN: "));
    EXPECT_THAT(outcome.text, HasSubstr("fuzz: passed"));
  }
}

// A healthy GPU fails no step for what is another program's lack; what the sanitizer finds does.
TEST_F(RunTest, ASanitizerThatDoesNotKnowTheGpuFailsNothing) {
  std::filesystem::create_directory(folder_ + "/bin");
  Write("gpu_check", R"(echo "$@")");
  Write("bin/compute-sanitizer", "echo '========= Error: Device not supported'; exit 255");
  const CommandOutcome outcome = Start("");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("memcheck: NOT RUN: compute-sanitizer does not work with this "
                        "GPU or machine: ========= Error: Device not supported\n"));
  EXPECT_THAT(outcome.text, HasSubstr("fuzz: passed"));
  Write("bin/compute-sanitizer", "echo '========= ERROR SUMMARY: 1 error'; exit 9");
  const CommandOutcome found = Start("");
  EXPECT_EQ(found.code, 1) << found.text;
  EXPECT_THAT(found.text, HasSubstr("initcheck: FAILED: exit code 9"));
}

// Whatever it is that keeps the sanitizer from starting the program: that is none of the GPU's
// faults. What a program that was started says of the GPU is.
TEST_F(RunTest, ASanitizerThatStartsNothingFailsNothing) {
  std::filesystem::create_directory(folder_ + "/bin");
  Write("gpu_check", "echo gpu_check 1: a GPU; exit $(cat code 2>/dev/null || echo 0)");
  Write("bin/compute-sanitizer", "echo '========= Error: no injection library'; exit 1");
  CommandOutcome outcome = Start("");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("or machine: ========= Error: no injection library\n"));
  Write("bin/compute-sanitizer", "exit 127");
  outcome = Start("");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("synccheck: NOT RUN: "));
  EXPECT_THAT(outcome.text, HasSubstr("or machine: exit code 127\n"));
  Write("bin/compute-sanitizer", "shift 4; echo 6 >code; \"$@\"; status=$?; rm code; exit $status");
  outcome = Start("");
  EXPECT_EQ(outcome.code, 6) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("racecheck: FAILED: the GPU differs from the CPU"));
}

TEST_F(RunTest, RecordsClocks) {
  std::filesystem::create_directory(folder_ + "/bin");
  Write("gpu_check", "until [ -s logs/clocks.csv ]; do sleep 0.01; done");
  Write("bin/nvidia-smi", R"(echo "$@"; exec sleep 100)");
  const CommandOutcome outcome = Start("--device 1 --out logs");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  std::ifstream log(Cat(folder_, "/logs/clocks.csv"));
  std::string line;
  std::getline(log, line);
  EXPECT_THAT(line, HasSubstr("--id=1"));
}

TEST_F(RunTest, WithoutAGpuItEnds) {
  Write("gpu_check", "echo there is none >&2; exit 5");
  const CommandOutcome outcome = Start("");
  EXPECT_EQ(outcome.code, 5) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("checks: FAILED: there is no GPU that can be used"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("fuzz:")));
}

TEST_F(RunTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(Start("").text, HasSubstr("there is no program"));
  Write("gpu_check", "");
  for (const char* arguments : {"all", "--seed", "--seed x", "--device -1"}) {
    EXPECT_EQ(Start(arguments).code, 2) << arguments;
  }
  const CommandOutcome help = Start("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.text, HasSubstr("Examples:"));
}

}  // namespace
}  // namespace kerf::cuda
