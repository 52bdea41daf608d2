#include "client/cli/duration.h"

#include <gtest/gtest.h>

namespace kerf::agent {
namespace {

using std::chrono::milliseconds;

TEST(ParseDurationTest, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*ParseDuration("0"), milliseconds(0));
  EXPECT_EQ(*ParseDuration("500ms"), milliseconds(500));
  EXPECT_EQ(*ParseDuration("90s"), milliseconds(90'000));
  EXPECT_EQ(*ParseDuration("5m"), milliseconds(300'000));
  EXPECT_EQ(*ParseDuration("1.5h"), milliseconds(5'400'000));
  EXPECT_EQ(*ParseDuration("7d"), milliseconds(604'800'000));
  EXPECT_EQ(*ParseDuration("365d"), *ParseDuration("8760h"));
}

TEST(ParseDurationTest, RefusesTheRest) {
  for (const char* text : {"", "5", "m", "-1s", "1e9s", "5 m", "5min", "inf", "nan", "1..5s",
                           "9000h", "366d", "7D", "1day", "99999999999999999999h", "1s2m"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

}  // namespace
}  // namespace kerf::agent
