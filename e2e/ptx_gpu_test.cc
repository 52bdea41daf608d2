// The PTX of the GPU's kernels under the kerfd that is released: every profile that says it can be
// cut on a GPU has the CPU's answers; devices that cannot run everything serve the rest.
#include <cstdlib>

#include "client/fs/testing/settle.h"
#include "e2e/ptx_kerfd.h"

namespace kerf::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

// A GPU of the kinds 8.6, 8.9 and 12 (A10, L4, RTX): 99 KiB of shared memory a block.
constexpr std::size_t kLittleSharedBytes = 99 << 10;
constexpr int kMostTries = 5;

class PtxGpuTest : public PtxKerfd {
 protected:
  // One of more than a batch, one of marks everywhere, which a GPU gives up, one that is shorter
  // than a chunk, and one that repeats itself.
  std::vector<std::string> Files() {
    const std::string block = RandomText(random_.Between(1'000, 30'000));
    std::string repeated;
    while (repeated.size() < 100'000) repeated += block;
    return {RandomText(kFileBytes + random_.Below(100'000)), std::string(300'000, '\0'),
            RandomText(1 + random_.Below(500)), repeated};
  }
};

TEST_F(PtxGpuTest, CutsEveryProfileAsTheCpuDoes) {
  StartServer(Cat("seed=", TestSeed()));
  ASSERT_FALSE(HasFatalFailure());
  const std::vector<std::string> profiles = GpuProfiles();
  ASSERT_GE(profiles.size(), 14u);
  const char* const rounds = std::getenv("KERF_PTX_ROUNDS");
  for (long left = rounds == nullptr ? 1 : std::strtol(rounds, nullptr, 10); left > 0; --left) {
    for (const std::string& profile : profiles) {
      const double before_bytes = Metric("kerf_gpu_bytes_total");
      double gpu_bytes = 0;
      // Until the GPU has had the most of a file. A piece for which no batch was free is the CPU's,
      // which on a busy machine may be many.
      for (int tries = 0; tries < kMostTries && gpu_bytes < kFileBytes; ++tries) {
        const std::vector<std::string> backends = UploadWithEachDigest(profile, Files());
        EXPECT_EQ(backends[0], kOnGpu) << profile;
        EXPECT_EQ(backends[1], kOnGpu) << profile;
        gpu_bytes = Metric("kerf_gpu_bytes_total") - before_bytes;
      }
      EXPECT_GE(gpu_bytes, kFileBytes) << profile;
    }
  }
  const nlohmann::json gpu = Ping()["gpus"][0];
  EXPECT_EQ(gpu["name"], "PTX");
  EXPECT_EQ(gpu["lost"], nullptr) << gpu;
  EXPECT_EQ(gpu["mismatches"], 0) << gpu;
  EXPECT_GT(gpu["batches"], gpu["given_up_pieces"]) << gpu;
  EXPECT_GT(gpu["given_up_pieces"], 0) << gpu;
  EXPECT_GT(gpu["audited_batches"], 0) << gpu;
  EXPECT_THAT(world_.StopServer(), Not(HasSubstr("lost")));
}

TEST_F(PtxGpuTest, WhatADeviceCannotRunOthersDo) {
  StartServer(Cat("shared=", kLittleSharedBytes, ";refuses=Sha256Chunks"));
  ASSERT_FALSE(HasFatalFailure());
  const std::vector<std::string> files = {RandomText(kFileBytes)};
  for (const char* profile : {"fastcdc-8k", "rabin-8k", "mincdc-8k"}) {
    const std::vector<std::string> backends = UploadWithEachDigest(profile, files);
    EXPECT_EQ(backends[0], kOnGpu) << profile;
    EXPECT_EQ(backends[1], kOnGpu) << profile;
  }
  // The one lacks shared memory for maxcdc, and the other one a kernel for SHA-256.
  const std::vector<std::string> backends = UploadWithEachDigest("maxcdc-8k", files);
  EXPECT_EQ(backends[0], kOnGpu);
  EXPECT_NE(backends[1], kOnGpu);
  const nlohmann::json said = Ping();
  EXPECT_EQ(said["degraded"], nlohmann::json::array());
  for (const nlohmann::json& gpu : said["gpus"]) {
    EXPECT_GT(gpu["batches"], 0) << gpu;
    EXPECT_EQ(gpu["lost"], nullptr) << gpu;
  }
  const std::string log = world_.StopServer();
  EXPECT_THAT(log, HasSubstr("GPU 0 cannot run, and the CPU cuts maxcdc: a block needs "));
  EXPECT_THAT(log, HasSubstr(Cat("this GPU has ", kLittleSharedBytes)));
  EXPECT_THAT(log, HasSubstr("GPU 1 cannot run, and the CPU cuts fastcdc with sha256, gear with "));
}

// A wrong digest that makes sense is seen by nobody in kerfd, unless it is its batch's turn to be
// audited: the agent sees it.
TEST_F(PtxGpuTest, AWrongDigestThatNobodyAuditsReachesNoSnapshot) {
  StartServer(Cat("fault=wrong-digest,armed=", armed()));
  ASSERT_FALSE(HasFatalFailure());
  // The first batch of all is audited.
  EXPECT_EQ(Upload("fastcdc2020-8k", v1::DIGEST_ALGORITHM_BLAKE3, {RandomText(kFileBytes)}),
            kOnGpu);
  WriteText(world_ / "file", RandomText(2 * kFileBytes));
  agent::testing::LetFilesSettle();
  Arm();
  const Completed wrong = world_.Kerf({"backup", "file", "--force", "--cut", "remote"});
  EXPECT_EQ(wrong.exit_code, kIntegrity) << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("but has the fingerprint"));
  world_.StopServer();
  world_.StartServer({"--gpu", "off"});
  EXPECT_EQ(world_.KerfJson({"snapshots"}).Of("snapshot").size(), 0u);
  EXPECT_GT(world_.Backup({"file", "--force"})["new_chunks"], 0);
  EXPECT_EQ(world_.KerfJson({"verify", "--read-data"}).exit_code, kOk);
}

}  // namespace
}  // namespace kerf::e2e
