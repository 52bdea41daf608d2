#include "base/rpc/line_rate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>

namespace kerf {
namespace {

using std::chrono::milliseconds;

constexpr LineRate::Time kStart{std::chrono::hours(1)};

TEST(LineRateTest, InNoSecondAreThereMoreAndEachLineIsSaidOrCounted) {
  LineRate rate;
  std::deque<LineRate::Time> said;
  std::uint64_t left_out = 0;
  constexpr int kLines = 5'000;
  for (int line = 0; line < kLines; ++line) {
    const LineRate::Time now = kStart + milliseconds(line);
    if (rate.Take("kind", now)) said.push_back(now);
    if (line % 700 == 0) left_out += rate.TakeLeftOut()["kind"];
  }
  left_out += rate.TakeLeftOut()["kind"];
  EXPECT_EQ(said.size() + left_out, static_cast<std::size_t>(kLines));
  EXPECT_GE(said.size(), 5 * LineRate::kLinesASecond);
  for (std::size_t index = LineRate::kLinesASecond; index < said.size(); ++index) {
    EXPECT_GE(said[index] - said[index - LineRate::kLinesASecond], milliseconds(1'000));
  }
}

TEST(LineRateTest, KindsDoNotCountForEachOther) {
  LineRate rate;
  for (std::size_t line = 0; line < LineRate::kLinesASecond; ++line) {
    EXPECT_TRUE(rate.Take("one", kStart));
    EXPECT_TRUE(rate.Take("other", kStart));
  }
  EXPECT_FALSE(rate.Take("one", kStart));
  const auto left_out = rate.TakeLeftOut();
  EXPECT_EQ(left_out, (std::map<std::string, std::uint64_t>{{"one", 1}}));
  EXPECT_TRUE(rate.TakeLeftOut().empty());
}

}  // namespace
}  // namespace kerf
