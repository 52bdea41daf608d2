#include "server/net/stall_watch.h"

#include <gtest/gtest.h>

namespace kerf {
namespace {

using std::chrono::milliseconds;

class StallWatchTest : public testing::Test {
 protected:
  std::optional<StallWatch::News> Look(WaitPlace place, std::uint64_t progress, int at_ms) {
    return watch_.Look(place, progress, start_ + milliseconds(at_ms), milliseconds(100));
  }

  const StallWatch::TimePoint start_ = StallWatch::TimePoint() + milliseconds(1'000'000);
  StallWatch watch_;
};

TEST_F(StallWatchTest, TellsOnceOfAWaitAndOnceOfItsEnd) {
  EXPECT_FALSE(Look(WaitPlace::kLookup, 1, 0));
  EXPECT_FALSE(Look(WaitPlace::kLookup, 1, 99));
  const auto begun = Look(WaitPlace::kLookup, 1, 100);
  ASSERT_TRUE(begun.has_value());
  EXPECT_TRUE(begun->has_begun);
  EXPECT_EQ(begun->place, WaitPlace::kLookup);
  EXPECT_EQ(begun->waited, milliseconds(100));
  EXPECT_FALSE(Look(WaitPlace::kLookup, 1, 500));
  const auto ended = Look(WaitPlace::kClientData, 2, 700);
  ASSERT_TRUE(ended.has_value());
  EXPECT_FALSE(ended->has_begun);
  EXPECT_EQ(ended->place, WaitPlace::kLookup);
  EXPECT_EQ(ended->waited, milliseconds(700));
  EXPECT_FALSE(Look(WaitPlace::kClientData, 2, 750));
  EXPECT_TRUE(Look(WaitPlace::kClientData, 2, 800));
}

TEST_F(StallWatchTest, WhoeverMovesDoesNotStall) {
  for (int step = 0; step < 50; ++step) {
    EXPECT_FALSE(Look(WaitPlace::kThread, static_cast<std::uint64_t>(step), 90 * step)) << step;
  }
}

TEST_F(StallWatchTest, NobodyStallsWhoDoesNotWait) {
  EXPECT_FALSE(Look(WaitPlace::kNone, 1, 0));
  EXPECT_FALSE(Look(WaitPlace::kNone, 1, 100'000));
}

TEST_F(StallWatchTest, KnowsWhereTheStreamHasWaitedBefore) {
  EXPECT_FALSE(Look(WaitPlace::kClientData, 1, 0));
  EXPECT_FALSE(Look(WaitPlace::kClientData, 1, 100)->is_repeated);
  EXPECT_FALSE(Look(WaitPlace::kClientData, 2, 200)->is_repeated);
  EXPECT_TRUE(Look(WaitPlace::kClientData, 2, 300)->is_repeated);
  EXPECT_TRUE(Look(WaitPlace::kLookup, 2, 400)->is_repeated);
  // Another place is another thing.
  EXPECT_FALSE(Look(WaitPlace::kLookup, 2, 500)->is_repeated);
}

TEST_F(StallWatchTest, TheEndOfAStreamEndsItsStall) {
  EXPECT_FALSE(Look(WaitPlace::kGpu, 1, 0));
  EXPECT_FALSE(watch_.End(start_ + milliseconds(50)));
  ASSERT_TRUE(Look(WaitPlace::kGpu, 1, 100));
  const auto ended = watch_.End(start_ + milliseconds(200));
  ASSERT_TRUE(ended.has_value());
  EXPECT_FALSE(ended->has_begun);
  EXPECT_EQ(ended->place, WaitPlace::kGpu);
  EXPECT_FALSE(watch_.End(start_ + milliseconds(300)));
}

}  // namespace
}  // namespace kerf
