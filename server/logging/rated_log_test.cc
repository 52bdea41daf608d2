#include "server/logging/rated_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "base/strings.h"

namespace kerf {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t CountOf(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// A minute of a flood would be 600 lines, and one a second that says how many there were.
TEST(RatedLog, TenLinesOfAKindASecondAndACountOfTheOthers) {
  testing::internal::CaptureStderr();
  for (int number = 0; number < 1'000; ++number) {
    LogRated(LogLevel::kInfo, "flood", Cat("one of many ", number));
  }
  LogRated(LogLevel::kWarning, "other", "one of few", {{"peer", "somebody"}});
  LogRated(LogLevel::kDebug, "debug", "nobody asked for this");
  LogLeftOut();
  // Told already.
  LogLeftOut();
  const std::string log = testing::internal::GetCapturedStderr();
  // More than one second may have passed on a slow machine.
  const std::size_t said_count = CountOf(log, "one of many");
  EXPECT_GE(said_count, 10u);
  EXPECT_LT(said_count, 100u);
  EXPECT_THAT(log, HasSubstr("one of few peer=somebody"));
  EXPECT_THAT(log, HasSubstr(Cat("kind=flood left_out=", 1'000 - said_count)));
  EXPECT_THAT(log, Not(HasSubstr("kind=other")));
  EXPECT_THAT(log, Not(HasSubstr("nobody asked")));
  EXPECT_EQ(CountOf(log, "left_out"), 1u);
}

}  // namespace
}  // namespace kerf
