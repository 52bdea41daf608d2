#include "kernels/cuda/pipeline/crossovers.h"

#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "kernels/profile.h"

namespace kerf::cuda {
namespace {

std::size_t Of(const Crossovers& crossovers, std::string_view profile, DigestAlgorithm algorithm) {
  return crossovers.Of(*MakeBatchPlan(*ParseProfile(profile), algorithm));
}

TEST(CrossoversTest, OneThatIsSetIsEveryPlans) {
  const Crossovers set(7);
  EXPECT_EQ(set.least(), 7u);
  EXPECT_EQ(Of(set, "fastcdc-8k", DigestAlgorithm::kBlake3), 7u);
  EXPECT_EQ(Of(set, "fastcdc-64k", DigestAlgorithm::kSha256), 7u);
}

TEST(CrossoversTest, NothingIsForADeviceThatWasNotMeasured) {
  EXPECT_EQ(Crossovers().least(), Crossovers::kNever);
  EXPECT_EQ(Of(Crossovers(), "fastcdc-8k", DigestAlgorithm::kBlake3), Crossovers::kNever);
}

// Chunks of fastcdc-8k, -16k and -64k have up to 32, 64 and 256 KiB.
TEST(CrossoversTest, ThatOfTheNextLongerChunks) {
  Crossovers measured;
  measured.Add(DigestAlgorithm::kBlake3, 32 << 10, 100);
  measured.Add(DigestAlgorithm::kBlake3, 128 << 10, 200);
  measured.Add(DigestAlgorithm::kSha256, 32 << 10, 1'000);
  measured.Add(DigestAlgorithm::kSha256, 128 << 10, Crossovers::kNever);
  EXPECT_EQ(measured.least(), 100u);
  EXPECT_EQ(Of(measured, "fastcdc-8k", DigestAlgorithm::kBlake3), 100u);
  EXPECT_EQ(Of(measured, "fastcdc-16k", DigestAlgorithm::kBlake3), 200u);
  EXPECT_EQ(Of(measured, "fastcdc-8k", DigestAlgorithm::kSha256), 1'000u);
  EXPECT_EQ(Of(measured, "fastcdc-16k", DigestAlgorithm::kSha256), Crossovers::kNever);
}

// Of SHA-256 they are one thread's work each; of others they are shared among many.
TEST(CrossoversTest, LongerChunksThanAllThatWereMeasured) {
  Crossovers measured;
  measured.Add(DigestAlgorithm::kBlake3, 32 << 10, 100);
  measured.Add(DigestAlgorithm::kSha256, 32 << 10, 1'000);
  measured.Add(DigestAlgorithm::kXxh3_128, 32 << 10, 50);
  EXPECT_EQ(Of(measured, "fastcdc-64k", DigestAlgorithm::kBlake3), 100u);
  EXPECT_EQ(Of(measured, "fastcdc-64k", DigestAlgorithm::kSha256), Crossovers::kNever);
  EXPECT_EQ(Of(measured, "fastcdc-64k", DigestAlgorithm::kXxh3_128), 50u);
  // One digest's figures are no other's.
  Crossovers one;
  one.Add(DigestAlgorithm::kBlake3, 32 << 10, 100);
  EXPECT_EQ(Of(one, "fastcdc-8k", DigestAlgorithm::kXxh3_128), Crossovers::kNever);
}

}  // namespace
}  // namespace kerf::cuda
