#include "base/units.h"

#include <gtest/gtest.h>

namespace kerf {
namespace {

constexpr std::uint64_t kPiB = 1024 * kTiB;

TEST(ParseByteSize, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*ParseByteSize("0"), 0u);
  EXPECT_EQ(*ParseByteSize("4096"), 4096u);
  EXPECT_EQ(*ParseByteSize("64K"), 64 * kKiB);
  EXPECT_EQ(*ParseByteSize("64 KiB"), 64 * kKiB);
  EXPECT_EQ(*ParseByteSize("1.5m"), 3 * kMiB / 2);
  EXPECT_EQ(*ParseByteSize("2GB"), 2 * kGiB);
  EXPECT_EQ(*ParseByteSize("1T"), kTiB);
  EXPECT_EQ(*ParseByteSize("1.5PiB"), 3 * kPiB / 2);
  EXPECT_EQ(*ParseByteSize("15e"), 15 * 1024 * kPiB);
}

TEST(ParseByteSize, RefusesTheRest) {
  for (const char* text :
       {"", "K", "-1", "1X", "inf", "1e9", "1..5K", "ib", "1ib", "99999999T", "16E", "9.5E"}) {
    EXPECT_FALSE(ParseByteSize(text).ok()) << text;
  }
}

TEST(FormatByteSize, PicksTheUnit) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1536), "1.5 KiB");
  EXPECT_EQ(FormatByteSize(866 * kMiB), "866.0 MiB");
  EXPECT_EQ(FormatByteSize(3 * kTiB), "3.0 TiB");
  EXPECT_EQ(FormatByteSize(5 * kPiB / 2), "2.5 PiB");
  EXPECT_EQ(FormatByteSize(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace kerf
