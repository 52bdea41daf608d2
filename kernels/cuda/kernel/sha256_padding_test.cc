// The end of messages that a test could not have the bytes for; fingerprints_test.cc has the short
// ones.
#include "kernels/cuda/kernel/sha256_padding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kerf::cuda {
namespace {

using Words = std::vector<std::uint32_t>;

Words Padded(std::uint32_t size_bytes, std::uint32_t block) {
  std::uint32_t words[16];
  std::fill(std::begin(words), std::end(words), 0x11223344);
  Sha256Pad(words, size_bytes, block);
  return {std::begin(words), std::end(words)};
}

TEST(Sha256Padding, BlockCounts) {
  EXPECT_EQ(Sha256BlockCount(0), 1u);
  EXPECT_EQ(Sha256BlockCount(55), 1u);
  EXPECT_EQ(Sha256BlockCount(56), 2u);
  EXPECT_EQ(Sha256BlockCount(64), 2u);
  EXPECT_EQ(Sha256BlockCount(119), 2u);
  EXPECT_EQ(Sha256BlockCount(120), 3u);
  EXPECT_EQ(Sha256BlockCount(0x80000000), (1u << 25) + 1);
}

// Its bits are more than a word can say.
TEST(Sha256Padding, TheLengthHasTwoWords) {
  Words expected(16, 0);
  expected[0] = 0x11223380;
  expected[14] = 3;
  expected[15] = 24;
  EXPECT_EQ(Padded(0x60000003, 0x60000003 / 64), expected);
}

TEST(Sha256Padding, TheLengthHasABlockOfItsOwn) {
  Words expected(16, 0x11223344);
  expected[14] = 0x11228000;
  expected[15] = 0;
  EXPECT_EQ(Padded(0x2000003A, 0x2000003A / 64), expected);
  expected.assign(16, 0);
  expected[14] = 1;
  expected[15] = 0x3A * 8;
  EXPECT_EQ(Padded(0x2000003A, 0x2000003A / 64 + 1), expected);
}

}  // namespace
}  // namespace kerf::cuda
