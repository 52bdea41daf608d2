#include "server/metrics/stall_counters.h"

#include <gtest/gtest.h>

namespace kerf::metrics {
namespace {

TEST(StallCountersTest, TheyKnowWhoStallsNow) {
  StallCounters counters;
  counters.Count({.has_begun = true, .place = WaitPlace::kGpu});
  counters.Count({.has_begun = true, .place = WaitPlace::kGpu});
  counters.Count({.has_begun = false, .place = WaitPlace::kGpu});
  EXPECT_EQ(counters.begun_count(WaitPlace::kGpu), 2u);
  EXPECT_EQ(counters.stalled_count(WaitPlace::kGpu), 1u);
  EXPECT_EQ(counters.stalled_count(WaitPlace::kMemory), 0u);
  counters.Count({.has_begun = true, .place = WaitPlace::kMemory});
  EXPECT_EQ(counters.stalled_count(), 2u);
}

// As a reader may see it, whose two loads fall on either side of another thread's two additions.
TEST(StallCountersTest, AnEndThatIsSeenBeforeItsBeginningIsNoWaitOfForever) {
  StallCounters counters;
  counters.Count({.has_begun = false, .place = WaitPlace::kGpu});
  EXPECT_EQ(counters.stalled_count(WaitPlace::kGpu), 0u);
  EXPECT_EQ(counters.stalled_count(), 0u);
}

}  // namespace
}  // namespace kerf::metrics
