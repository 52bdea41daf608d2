// What a watch thinks of what it sees, without a Redis.
#include "server/redis/redis_watch.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"

namespace kerf::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kA(32, 'a');
const std::string kB(32, 'b');
const std::string kC(32, 'c');

TEST(IndexIdentityTest, IsWrittenWithThoseBeforeIt) {
  const IndexIdentity first = SuccessorOf({}, kA);
  EXPECT_EQ(FormatIdentity(first), Cat("1 ", kA));
  const IndexIdentity second = SuccessorOf(first, kB);
  EXPECT_EQ(FormatIdentity(second), Cat("1 ", kB, " ", kA));
  EXPECT_EQ(FormatIdentity(SuccessorOf(second, kC)), Cat("1 ", kC, " ", kB, " ", kA));
  const auto parsed = ParseIdentity(Cat("1 ", kC, " ", kB, " ", kA));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->id, kC);
  EXPECT_EQ(parsed->before, (std::vector<std::string>{kB, kA}));
  EXPECT_EQ(DrawIndexId().size(), 32u);
  EXPECT_NE(DrawIndexId(), DrawIndexId());
  IndexIdentity old = first;
  for (std::size_t count = 0; count < 2 * kMaxIdsBefore; ++count) {
    old = SuccessorOf(old, DrawIndexId());
    ASSERT_TRUE(ParseIdentity(FormatIdentity(old)).ok());
  }
  EXPECT_EQ(old.before.size(), kMaxIdsBefore);
}

TEST(IndexIdentityTest, NothingElseIsOne) {
  std::string many = Cat("1 ", kA);
  for (std::size_t count = 0; count <= kMaxIdsBefore; ++count) many += Cat(" ", kB);
  for (const std::string& text :
       {std::string(), std::string("1"), std::string("1 "), Cat("2 ", kA), Cat("1 ", kA, " "),
        Cat("1  ", kA), Cat("1 ", kA, " x"), Cat("1 ", std::string(32, 'A')),
        Cat("1 ", kA.substr(1)), kA, many}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ParseIdentity(text).status())) << text;
  }
}

TEST(IndexIdentityTest, ALineIsFollowedBothWays) {
  const IndexIdentity a = SuccessorOf({}, kA);
  const IndexIdentity b = SuccessorOf(a, kB);
  const IndexIdentity c = SuccessorOf({}, kC);
  EXPECT_TRUE(IsSameLine(a, a));
  EXPECT_TRUE(IsSameLine(a, b));
  EXPECT_TRUE(IsSameLine(b, a));
  EXPECT_FALSE(IsSameLine(a, c));
  EXPECT_FALSE(IsSameLine(c, b));
}

class ReachabilityTest : public testing::Test {
 protected:
  // One look, which takes `time`.
  bool Look(bool is_well, milliseconds time) {
    const auto began = now_;
    now_ += time;
    state_.Record(is_well, began, now_);
    return state_.is_lost();
  }
  // How long it takes until it is no longer as it was.
  milliseconds TimeUntilChanged(bool is_well) {
    const bool was_lost = state_.is_lost();
    const auto began = now_;
    while (Look(is_well, milliseconds(500)) == was_lost && now_ - began < seconds(600)) {
    }
    return std::chrono::duration_cast<milliseconds>(now_ - began);
  }

  Reachability::TimePoint now_;
  Reachability state_{ReachabilityTimes{}};
};

TEST_F(ReachabilityTest, OneLookIsNoLoss) {
  EXPECT_FALSE(Look(true, milliseconds(10)));
  EXPECT_FALSE(Look(false, seconds(60)));
  EXPECT_FALSE(Look(true, milliseconds(10)));
  EXPECT_FALSE(Look(false, seconds(60)));
  EXPECT_TRUE(Look(false, milliseconds(10)));
}

TEST_F(ReachabilityTest, IsLostAfterSecondsAndBackAfterFewer) {
  EXPECT_EQ(TimeUntilChanged(false), milliseconds(5'000));
  EXPECT_EQ(TimeUntilChanged(true), milliseconds(2'000));
}

// What comes and goes is away for longer each time, up to a minute; calm makes it as it was.
TEST_F(ReachabilityTest, WhatIsLostAgainAndAgainHasToBeWellForLonger) {
  for (const int back_ms : {2'000, 4'000, 8'000, 16'000, 32'000, 60'000, 60'000}) {
    EXPECT_EQ(TimeUntilChanged(false), milliseconds(5'000));
    EXPECT_EQ(TimeUntilChanged(true), milliseconds(back_ms));
  }
  for (int count = 0; count < 301; ++count) EXPECT_FALSE(Look(true, seconds(1)));
  EXPECT_EQ(TimeUntilChanged(false), milliseconds(5'000));
  EXPECT_EQ(TimeUntilChanged(true), milliseconds(2'000));
}

// Whatever comes: no loss within the first seconds of failures nor without two of them, none that
// outlives a minute of successes, and few changes.
TEST_F(ReachabilityTest, WaversSeldom) {
  Random random(TestSeed());
  int change_count = 0;
  bool was_lost = false;
  bool last = true;
  auto since = now_;
  const auto begin = now_;
  while (now_ - begin < std::chrono::hours(24)) {
    const bool is_well = random.OneIn(20) ? !last : last;
    if (is_well != last) since = now_;
    last = is_well;
    const bool is_lost = Look(is_well, milliseconds(random.Between(1, 3'000)));
    if (is_lost != was_lost) {
      ++change_count;
      EXPECT_EQ(is_lost, !is_well);
      EXPECT_GE(now_ - since, is_lost ? seconds(5) : seconds(2));
    }
    if (is_well && now_ - since >= seconds(60)) {
      EXPECT_FALSE(is_lost);
    }
    was_lost = is_lost;
  }
  // A loss and its return take a minute at least once they come often.
  EXPECT_LT(change_count, 2 * 24 * 60);
  EXPECT_GT(change_count, 10);
}

}  // namespace
}  // namespace kerf::redis
