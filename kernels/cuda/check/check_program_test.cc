// gpu_check on emulated devices: its arguments, what it says, and how it ends.
#include "kernels/cuda/check/check_program.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/check/time_limit.h"
#include "kernels/cuda/plugin/emulated_source.h"
#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  CheckExit code;
  std::string out;
};

Outcome RunProgram(const std::vector<std::string>& arguments, const OpenNumber& open) {
  std::vector<const char*> argv = {"gpu_check"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  const CheckExit code = RunCheckProgram(static_cast<int>(argv.size()), argv.data(), open, out);
  return {code, out.str()};
}

OpenNumber Emulated(const Fault& fault = {}, std::uint64_t faulty = 0) {
  return [source = EmulatedSource(TestSeed(), fault, faulty)](std::uint32_t) { return source(); };
}

absl::StatusOr<std::unique_ptr<Device>> OpenNone(std::uint32_t number) {
  return absl::UnavailableError(Cat("no device ", number));
}

const std::string kSeed = Cat(TestSeed() >> 1);

TEST(CheckProgramTest, ARightDevicePasses) {
  const Outcome outcome =
      RunProgram({"self-test", "fuzz", "--small", "--rounds", "2", "--seed", kSeed}, Emulated());
  EXPECT_EQ(outcome.code, CheckExit::kOk) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("emulator, 1.0 GiB\nself-test: ok ("));
  EXPECT_THAT(outcome.out, HasSubstr(Cat("fuzz: ok, 2 rounds from seed ", kSeed, ", ")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("vectors")));
}

TEST(CheckProgramTest, WritesFigures) {
  const std::string path = Cat(::testing::TempDir(), "/gpu_check_", TestSeed(), ".json");
  const Outcome outcome = RunProgram({"bench", "--small", "--json", path}, Emulated());
  EXPECT_EQ(outcome.code, CheckExit::kOk) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("marks+cuts fastcdc-8k "));
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  EXPECT_EQ(json["device"], "emulator");
  EXPECT_GT(json["figures"].size(), 30u);
  EXPECT_EQ(json["figures"][0]["what"], "copy-in");
  EXPECT_EQ(json["is_whole"], true);
  const Outcome nowhere = RunProgram({"bench", "--small", "--json", "/no/such"}, Emulated());
  EXPECT_EQ(nowhere.code, CheckExit::kFailed);
}

// Copies are measured first, on a device that is opened for them.
TEST(CheckProgramTest, FiguresStayOfAGpuThatIsLost) {
  const std::string path = Cat(::testing::TempDir(), "/gpu_check_lost_", TestSeed(), ".json");
  const Outcome outcome =
      RunProgram({"bench", "--small", "--json", path}, Emulated({Fault::Kind::kLost, 0}, 2));
  EXPECT_NE(outcome.code, CheckExit::kOk) << outcome.out;
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  EXPECT_EQ(json["is_whole"], false);
  EXPECT_EQ(json["figures"].size(), 3u);
}

TEST(CheckProgramTest, AWrongDeviceDoesNot) {
  // The second one that is opened, which the self-test takes.
  const Outcome first =
      RunProgram({"self-test", "fuzz", "--small"}, Emulated({Fault::Kind::kWrongBits, 8}, 1));
  EXPECT_NE(first.code, CheckExit::kOk);
  EXPECT_THAT(first.out, HasSubstr("self-test: FAILED: "));
  EXPECT_THAT(first.out, Not(HasSubstr("fuzz")));
  const Outcome second = RunProgram({"fuzz", "--small", "--seed", kSeed, "--rounds", "9"},
                                    Emulated({Fault::Kind::kWrongBits, 8}, 1));
  EXPECT_NE(second.code, CheckExit::kOk);
  EXPECT_THAT(second.out, HasSubstr("fuzz: FAILED: round "));
  EXPECT_THAT(second.out, HasSubstr(Cat("gpu_check fuzz --small --seed ", kSeed, " --rounds ")));
}

TEST(CheckProgramTest, SaysWhatADeviceCannotRun) {
  const Fault refuses{.kind = Fault::Kind::kRefuses, .kernel = KernelList::NumberOf<RabinMarks>()};
  const Outcome outcome =
      RunProgram({"self-test", "fuzz", "bench", "--small", "--rounds", "20", "--seed", kSeed},
                 Emulated(refuses, kEveryDevice));
  EXPECT_EQ(outcome.code, CheckExit::kOk) << outcome.out;
  const std::string text = ", left to the CPU: rabin: the test refuses this kernel (";
  EXPECT_THAT(outcome.out, HasSubstr("self-test: ok" + text));
  EXPECT_THAT(outcome.out, HasSubstr("bench: ok" + text));
  EXPECT_THAT(outcome.out, HasSubstr("marks      crc-8k"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("marks      rabin-8k")));
}

TEST(CheckProgramTest, WithoutADeviceItSaysSoOnce) {
  ::testing::internal::CaptureStderr();
  const Outcome outcome = RunProgram({"--device", "3"}, OpenNone);
  EXPECT_EQ(outcome.code, CheckExit::kNoDevice);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "gpu_check: there is no GPU that can be used: no device 3\n");
}

TEST(CheckProgramTest, RefusesWhatItDoesNotKnow) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"all"}, {"--seconds", "-1"}, {"--seed", "x"}, {"--nothing"}}) {
    EXPECT_EQ(RunProgram(arguments, OpenNone).code, CheckExit::kUsage) << arguments[0];
  }
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunProgram({"--help"}, OpenNone).code, CheckExit::kOk);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("Examples:"));
}

TEST(TimeLimitTest, EndsTheProgramBehindItsTime) {
  {
    const TimeLimit limit("quick", std::chrono::minutes(1));
  }
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const TimeLimit limit("slow", std::chrono::milliseconds(1));
        std::this_thread::sleep_for(std::chrono::minutes(1));
      },
      ::testing::ExitedWithCode(1), "slow: FAILED: it has not ended");
}

}  // namespace
}  // namespace kerf::cuda
