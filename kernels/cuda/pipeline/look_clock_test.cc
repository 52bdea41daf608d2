// What counts of the time between two looks.
#include "kernels/cuda/pipeline/look_clock.h"

#include <gtest/gtest.h>

namespace kerf::cuda {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(LookClockTest, CountsWhatSomebodyHasLookedAt) {
  LookClock clock;
  LookClock::Clock::time_point now{hours(1)};
  EXPECT_EQ(clock.Look(now).count(), 0);
  EXPECT_EQ(clock.Look(now += milliseconds(3)), milliseconds(3));
  EXPECT_EQ(clock.Look(now).count(), 0);
  EXPECT_EQ(clock.Look(now += LookClock::kMaxLook), LookClock::kMaxLook);
  // Nobody was there: of that time a look's counts, and of what comes behind it all.
  EXPECT_EQ(clock.Look(now += hours(1)), LookClock::kMaxLook);
  EXPECT_EQ(clock.Look(now += milliseconds(7)), milliseconds(7));
}

}  // namespace
}  // namespace kerf::cuda
