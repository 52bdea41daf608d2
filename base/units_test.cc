#include "base/units.h"

#include <gtest/gtest.h>

namespace kerf {
namespace {

TEST(ParseByteSize, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*ParseByteSize("0"), 0u);
  EXPECT_EQ(*ParseByteSize("4096"), 4096u);
  EXPECT_EQ(*ParseByteSize("64K"), 64 * kKiB);
  EXPECT_EQ(*ParseByteSize("64 KiB"), 64 * kKiB);
  EXPECT_EQ(*ParseByteSize("1.5m"), 3 * kMiB / 2);
  EXPECT_EQ(*ParseByteSize("2GB"), 2 * kGiB);
  EXPECT_EQ(*ParseByteSize("1T"), kTiB);
}

TEST(ParseByteSize, RefusesTheRest) {
  for (const char* text : {"", "K", "-1", "1X", "inf", "1e9", "1..5K", "ib", "1ib", "99999999T"}) {
    EXPECT_FALSE(ParseByteSize(text).ok()) << text;
  }
}

TEST(FormatByteSize, PicksTheUnit) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1536), "1.5 KiB");
  EXPECT_EQ(FormatByteSize(866 * kMiB), "866.0 MiB");
  EXPECT_EQ(FormatByteSize(3 * kTiB), "3.0 TiB");
}

}  // namespace
}  // namespace kerf
