// The program as it is: what it needs of a machine, and what it says where there is no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/check/shell_command.h"

namespace kerf::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kProgram = "kernels/cuda/check/gpu_check";

TEST(GpuCheckTest, ChecksTheGpuOrSaysThatThereIsNone) {
  const CommandOutcome outcome = RunCommand(kProgram + " self-test --small");
  if (outcome.code != 5) {
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("self-test: ok"));
    return;
  }
  EXPECT_THAT(outcome.text, HasSubstr("gpu_check: there is no GPU that can be used: "));
  EXPECT_THAT(outcome.text, HasSubstr("CUDA"));
}

TEST(GpuCheckTest, NeedsTheCLibraryAlone) {
  const CommandOutcome outcome = RunCommand("ldd " + kProgram);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("libc.so"));
  for (const char* library : {"libstdc++", "libgcc_s", "libcuda", "absl", "crypto"}) {
    EXPECT_THAT(outcome.text, Not(HasSubstr(library)));
  }
}

}  // namespace
}  // namespace kerf::cuda
