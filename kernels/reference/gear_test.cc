#include "kernels/reference/gear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

// A run of one byte of any length: 16 bytes fill the hash.
bool SomeRunIsCut(std::uint32_t value) {
  std::uint16_t hash = 0;
  for (int length = 1; length <= 16; ++length) {
    hash = static_cast<std::uint16_t>((hash << 1) + value);
    if (hash < GearBound(kMinAvgBytes)) return true;
  }
  return false;
}

TEST(Gear, WordsAreTheFirstWithWhichNoRunIsCut) {
  Random random(0);
  std::vector<std::uint32_t> values = {static_cast<std::uint32_t>(random.Next() >> 32)};
  EXPECT_FALSE(SomeRunIsCut(values[0]));
  EXPECT_EQ(kGearWords[8], values[0]);
  for (std::size_t bit = 0; bit < 8; ++bit) {
    std::uint32_t word = 0;
    do {
      word = static_cast<std::uint32_t>(random.Next() >> 32);
    } while (std::any_of(values.begin(), values.end(),
                         [word](std::uint32_t value) { return SomeRunIsCut(value ^ word); }));
    EXPECT_EQ(kGearWords[bit], word) << bit;
    const std::size_t count = values.size();
    for (std::size_t index = 0; index < count; ++index) values.push_back(values[index] ^ word);
  }
  EXPECT_TRUE(std::equal(values.begin(), values.end(), kGearTable.begin(), kGearTable.end()));
}

TEST(Gear, NoRunOfOneByteIsCutBeforeMax) {
  const Profile profile = *ParseProfile("gear:min=64,avg=256,max=1000");
  for (std::uint64_t value = 0; value < 256; ++value) {
    const std::vector<std::uint8_t> run = MakeInput("constant", value, 2000);
    EXPECT_EQ(GearNextCut(profile, run), 1000u) << value;
  }
}

// Bytes before min count nothing, as if their value were 0.
TEST(Gear, HashBeginsAtMin) {
  const Profile profile = *ParseProfile("gear:min=64,avg=256,max=1000");
  std::vector<std::uint8_t> bytes = MakeInput("random", 5, 1000);
  const std::size_t cut = GearNextCut(profile, bytes);
  std::fill_n(bytes.begin(), 64, std::uint8_t{0});
  EXPECT_EQ(GearNextCut(profile, bytes), cut);
}

TEST(MaxCdc, TakesTheFirstOfEqualsAndMayReachMax) {
  const Profile profile = *ParseProfile("maxcdc:min=64,max=200");
  std::vector<std::uint8_t> bytes(300);
  EXPECT_EQ(MaxCdcNextCut(profile, bytes), 64u);
  // The hash of 32 bytes decides, wherever they stand: those that win at 150 also win at 200.
  const std::vector<std::uint8_t> noise = MakeInput("random", 1, 300);
  const std::size_t best = MaxCdcNextCut(profile, noise);
  const auto window = noise.begin() + static_cast<std::ptrdiff_t>(best - 32);
  for (const std::size_t end : {64u, 150u, 200u}) {
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
    std::copy(window, window + 32, bytes.begin() + static_cast<std::ptrdiff_t>(end - 32));
    EXPECT_EQ(MaxCdcNextCut(profile, bytes), end);
  }
}

// A change of any of these is a new algorithm name.
TEST(Gear, TableIsFixed) {
  EXPECT_EQ(kGearTable[0], 0xe220a839u);
  EXPECT_EQ(kGearTable[1], 0x8c583653u);
  EXPECT_EQ(kGearTable[255], 0x27b3b654u);
}

}  // namespace
}  // namespace kerf
