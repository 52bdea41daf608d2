// kerfd and its CUDA plug-in on machines with and without a GPU: it says once what it has, and the
// chunks are the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "client/fs/testing/settle.h"
#include "e2e/round_trip.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kFileBytes = 40'000'000;

std::size_t CountOf(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

class GpuTest : public testing::Test {
 protected:
  GpuTest() : plugin_(BuiltProgram("kernels/cuda/plugin/libkerf_cuda.so")) {
    std::string content(kFileBytes, '\0');
    Random(TestSeed()).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteText(world_ / "file", content);
  }

  Completed StartOnly(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {BuiltProgram("server/kerfd"), "--listen", "unix:server/other"});
    return world_.Run(flags);
  }

  World world_;
  const std::string plugin_;
};

TEST_F(GpuTest, WhatIsCutWithAPluginAtHandIsKnownWithout) {
  world_.StartServer({"--gpu-plugin", plugin_});
  ASSERT_FALSE(HasFatalFailure());
  agent::testing::LetFilesSettle();
  EXPECT_GT(world_.Backup({"file", "--force"})["new_chunks"], 0);
  const nlohmann::json said = world_.KerfJson({"ping"}).Only("summary");
  EXPECT_EQ(said["degraded"], nlohmann::json::array());
  for (const nlohmann::json& gpu : said["gpus"]) EXPECT_EQ(gpu["mismatches"], 0);
  const std::string log = world_.StopServer();
  EXPECT_THAT(log, AnyOf(HasSubstr("GPU 0 of "), HasSubstr("no GPU, the CPU cuts")));
  EXPECT_EQ(CountOf(log, "GPU"), CountOf(log, "GPUs") + 1) << log;
  EXPECT_THAT(log, Not(HasSubstr("lost")));
  world_.StartServer({"--gpu", "off"});
  world_.ExpectNothingNew(world_.Backup({"file", "--force"}));
  EXPECT_THAT(world_.StopServer(), Not(HasSubstr("GPU")));
}

TEST_F(GpuTest, AGpuThatIsRequiredAndCannotBeUsedIsAnError) {
  Completed end = StartOnly({"--gpu", "require", "--gpu-plugin", "/no/such/plugin.so"});
  EXPECT_EQ(end.exit_code, kFailure);
  EXPECT_THAT(end.err, HasSubstr("/no/such/plugin.so"));
  end = StartOnly({"--gpu", "require", "--gpu-plugin", plugin_, "--gpu-devices", "998"});
  EXPECT_EQ(end.exit_code, kFailure);
  EXPECT_THAT(end.err, HasSubstr("--gpu require: "));
  end = StartOnly({"--gpu", "require", "--gpu-plugin", "/etc/passwd"});
  EXPECT_EQ(end.exit_code, kFailure);
  EXPECT_THAT(end.err, HasSubstr("--gpu require: /etc/passwd cannot be loaded"));
}

TEST_F(GpuTest, IsMeasuredOrThereIsNone) {
  const Completed end = world_.Kerf(
      {"bench", "gpu", "--plugin", plugin_, "--profile", "fastcdc-8k", "--rounds", "1"});
  if (end.exit_code == kOk) {
    EXPECT_THAT(end.out, HasSubstr("end-to-end fastcdc-8k"));
    return;
  }
  EXPECT_EQ(end.exit_code, kUnavailable);
  EXPECT_THAT(end.err, HasSubstr("there is no GPU that can be used: "));
  EXPECT_EQ(end.out, "");
}

}  // namespace
}  // namespace kerf::e2e
