#include "kernels/reference/fastcdc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

// What a run of `value` hashes to once it fills the window: value * 2^k summed over k = 0..31.
std::uint32_t RunHash(std::uint32_t value) { return value * UINT32_MAX; }

bool SomeRunSatisfies(const std::array<std::uint32_t, 256>& gear, std::uint32_t mask) {
  return std::any_of(gear.begin(), gear.end(),
                     [mask](std::uint32_t value) { return (RunHash(value) & mask) == 0; });
}

TEST(FastCdc, MasksAreNestedAndSpread) {
  std::uint32_t smaller = 0;
  for (std::uint32_t bits = 1; bits <= kFastCdcMaxMaskBits; ++bits) {
    const std::uint32_t mask = FastCdcMask(bits);
    EXPECT_EQ(std::popcount(mask), static_cast<int>(bits));
    EXPECT_EQ(mask & smaller, smaller);
    EXPECT_EQ(mask & 0xFF, 0u);
    smaller = mask;
  }
  EXPECT_EQ(FastCdcMask(5), 0x89020400u);
  EXPECT_EQ(FastCdcMask(11), 0xc9932600u);
  EXPECT_EQ(FastCdcMask(15), 0xed9b3600u);
}

TEST(FastCdc, SeedIsTheFirstWithoutARunThatSatisfiesAMask) {
  // Masks are nested, so the smallest one speaks for all.
  const std::uint32_t smallest = FastCdcMask(kFastCdcMinMaskBits);
  for (std::uint64_t seed = 0; seed < kFastCdcGearSeed; ++seed) {
    EXPECT_TRUE(SomeRunSatisfies(MakeFastCdcGear(seed), smallest)) << seed;
  }
  EXPECT_FALSE(SomeRunSatisfies(MakeFastCdcGear(kFastCdcGearSeed), smallest));
}

TEST(FastCdc, NoConstantRunIsCutBeforeTheWindowIsFullAndAfter) {
  const Profile profile = *ParseProfile("fastcdc-8k");
  for (std::uint64_t value = 0; value < 256; ++value) {
    const std::vector<std::uint8_t> run = MakeInput("constant", value, profile.max_bytes);
    EXPECT_GE(FastCdcNextCut(profile, run), profile.avg_bytes) << value;
  }
}

// A change of any of these is a new algorithm name.
TEST(FastCdc, GearTableIsFixed) {
  EXPECT_EQ(FastCdcGear()[0], 0xb5f7ff3cu);
  EXPECT_EQ(FastCdcGear()[1], 0x6faeb96cu);
  EXPECT_EQ(FastCdcGear()[255], 0x80f84974u);
}

}  // namespace
}  // namespace kerf
