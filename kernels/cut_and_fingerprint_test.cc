#include "kernels/cut_and_fingerprint.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/test_seed.h"
#include "kernels/profile.h"
#include "kernels/registry.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

class CutAndFingerprintTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CutAndFingerprintTest, IsCuttingThenFingerprinting) {
  const Profile profile = *ParseProfile(GetParam());
  const std::unique_ptr<Chunker> chunker = MakeChunker(profile);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5000},
                                 kFusedBatchBytes, std::size_t{3'000'017}}) {
    const std::vector<std::uint8_t> bytes = MakeInput("random", TestSeed(), size);
    for (const DigestAlgorithm algorithm :
         {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128}) {
      Bytes rest = bytes;
      CutAndFingerprint(*chunker, algorithm, bytes,
                        [&](std::span<const Bytes> chunks, std::span<const Digest> digests) {
                          ASSERT_EQ(chunks.size(), digests.size());
                          for (std::size_t index = 0; index < chunks.size(); ++index) {
                            const Bytes wanted = rest.first(chunker->NextCut(rest));
                            ASSERT_EQ(chunks[index].data(), wanted.data());
                            ASSERT_EQ(chunks[index].size(), wanted.size());
                            ASSERT_EQ(digests[index], Fingerprint(algorithm, wanted));
                            rest = rest.subspan(wanted.size());
                          }
                        });
      EXPECT_TRUE(rest.empty());
    }
  }
}

// Batches that end by their bytes, and by their number of chunks.
INSTANTIATE_TEST_SUITE_P(Profiles, CutAndFingerprintTest,
                         ::testing::Values("fastcdc2020-8k", "fixed:size=1000000",
                                           "fastcdc:min=64,avg=256,max=999,level=0"));

}  // namespace
}  // namespace kerf
