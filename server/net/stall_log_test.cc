#include "server/net/stall_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kerf {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// As the log shows it at its level of every day.
std::string LogOf(const StallWatch::News& news) {
  testing::internal::CaptureStderr();
  LogStall(news, {});
  return testing::internal::GetCapturedStderr();
}

std::string LogOfBegin(WaitPlace place, bool is_repeated) {
  return LogOf({.has_begun = true, .place = place, .is_repeated = is_repeated});
}

std::string LogOfEnd(WaitPlace place, bool is_repeated) {
  return LogOf({.has_begun = false, .place = place, .is_repeated = is_repeated});
}

TEST(StallLogTest, WhatTheServerIsSlowAtIsAWarningEachTime) {
  for (const bool is_repeated : {false, true}) {
    EXPECT_THAT(LogOfBegin(WaitPlace::kLookup, is_repeated),
                HasSubstr("warning stream waits place=lookup"));
    EXPECT_THAT(LogOfEnd(WaitPlace::kLookup, is_repeated),
                HasSubstr("info stream goes on place=lookup"));
  }
}

TEST(StallLogTest, WhatAClientMayBeTheCauseOfIsToldOnce) {
  for (const WaitPlace place :
       {WaitPlace::kClientData, WaitPlace::kClientReading, WaitPlace::kWorkerAnswer}) {
    EXPECT_THAT(LogOfBegin(place, false), HasSubstr("info stream waits"));
    EXPECT_THAT(LogOfEnd(place, false), HasSubstr("info stream goes on"));
    EXPECT_THAT(LogOfBegin(place, true), IsEmpty());
    EXPECT_THAT(LogOfEnd(place, true), IsEmpty());
  }
}

// Clients that send one worker more than it can cut would else fill the log of every front.
TEST(StallLogTest, AWorkerThatIsSlowToReadIsAWarningOnce) {
  EXPECT_THAT(LogOfBegin(WaitPlace::kWorkerReading, false),
              HasSubstr("warning stream waits place=worker_reading"));
  EXPECT_THAT(LogOfEnd(WaitPlace::kWorkerReading, false), HasSubstr("info stream goes on"));
  EXPECT_THAT(LogOfBegin(WaitPlace::kWorkerReading, true), IsEmpty());
  EXPECT_THAT(LogOfEnd(WaitPlace::kWorkerReading, true), IsEmpty());
}

}  // namespace
}  // namespace kerf
