#include "kernels/cuda/pipeline/call_watch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace kerf::cuda {
namespace {

TEST(CallWatchTest, ACallThatReturnsIsNotGivenUp) {
  CallWatch watch;
  EXPECT_EQ(watch.current(), CallWatch::kIdle);
  watch.Begin();
  const std::uint64_t first = watch.current();
  EXPECT_NE(first, CallWatch::kIdle);
  EXPECT_TRUE(watch.End());
  EXPECT_FALSE(watch.GiveUp(first));
  watch.Begin();
  // Another one than who looked has seen.
  EXPECT_NE(watch.current(), first);
  EXPECT_FALSE(watch.GiveUp(first));
  EXPECT_TRUE(watch.End());
  EXPECT_FALSE(watch.is_given_up());
}

TEST(CallWatchTest, OneThatIsGivenUpSaysSoWhenItReturns) {
  CallWatch watch;
  watch.Begin();
  EXPECT_TRUE(watch.GiveUp(watch.current()));
  EXPECT_TRUE(watch.is_given_up());
  EXPECT_FALSE(watch.End());
}

// Of a call that returns while it is given up, one of the two has what the thread had.
TEST(CallWatchTest, OneOfTheTwoHasIt) {
  for (int round = 0; round < 200; ++round) {
    CallWatch watch;
    int owned = 0;
    watch.Begin();
    const std::uint64_t call = watch.current();
    std::thread caller([&] {
      if (watch.End()) ++owned;
    });
    if (watch.GiveUp(call)) ++owned;
    caller.join();
    EXPECT_EQ(owned, 1);
  }
}

}  // namespace
}  // namespace kerf::cuda
