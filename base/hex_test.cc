#include "base/hex.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <string>

namespace kerf {
namespace {

TEST(HexTest, EachByteIsTwoDigitsTheHigherOneFirst) {
  constexpr std::array<std::uint8_t, 6> kBytes = {0x00, 0x01, 0x0F, 0x10, 0xA5, 0xFF};
  EXPECT_EQ(HexOf(kBytes), "00010f10a5ff");
  EXPECT_EQ(HexOf({}), "");
}

TEST(HexTest, NoTwoBytesAreOneText) {
  std::array<std::uint8_t, 256> all;
  std::iota(all.begin(), all.end(), std::uint8_t{0});
  const std::string text = HexOf(all);
  for (std::size_t at = 0; at < all.size(); ++at) {
    EXPECT_EQ(std::stoul(text.substr(2 * at, 2), nullptr, 16), at);
  }
  EXPECT_TRUE(IsHex(text));
}

TEST(HexTest, WhatIsNoneIsKnown) {
  EXPECT_TRUE(IsHex(""));
  EXPECT_TRUE(IsHex("0123456789abcdef"));
  for (const char* const other : {"A", "g", "0x1", "12 ", "-1", "\xC3\xA9", "/"}) {
    EXPECT_FALSE(IsHex(other)) << other;
  }
}

}  // namespace
}  // namespace kerf
