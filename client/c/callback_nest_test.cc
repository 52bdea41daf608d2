#include "client/c/callback_nest.h"

#include <gtest/gtest.h>

#include <thread>

namespace kerf::c {
namespace {

using Running = CallbackNest::Running;

TEST(CallbackNestTest, WhoRunsNoCallbackMayWait) {
  CallbackNest nest;
  EXPECT_FALSE(nest.IsCalling());
  EXPECT_TRUE(nest.BeginWait());
  EXPECT_FALSE(nest.IsCalling());
  nest.EndWait();
}

TEST(CallbackNestTest, OneThreadRunsTwo) {
  CallbackNest first;
  CallbackNest second;
  CallbackNest third;
  {
    const Running outer(first);
    EXPECT_TRUE(first.IsCalling());
    EXPECT_FALSE(second.IsCalling());
    ASSERT_TRUE(second.BeginWait());
    {
      const Running inner(second);
      EXPECT_TRUE(first.IsCalling());
      EXPECT_TRUE(second.IsCalling());
      EXPECT_FALSE(third.IsCalling());
      EXPECT_FALSE(first.BeginWait());
    }
    EXPECT_TRUE(first.IsCalling());
    EXPECT_FALSE(second.IsCalling());
    second.EndWait();
  }
  EXPECT_FALSE(first.IsCalling());
}

TEST(CallbackNestTest, SoDoTwoThreadsOfWhichOneWaits) {
  CallbackNest first;
  CallbackNest second;
  const Running outer(first);
  ASSERT_TRUE(second.BeginWait());
  std::thread([&] {
    EXPECT_FALSE(first.IsCalling());
    const Running inner(second);
    EXPECT_TRUE(first.IsCalling());
    EXPECT_FALSE(first.BeginWait());
  }).join();
  second.EndWait();
  // What still runs is waited for by nobody.
  std::thread([&] {
    const Running inner(second);
    EXPECT_FALSE(first.IsCalling());
    ASSERT_TRUE(first.BeginWait());
    first.EndWait();
  }).join();
}

TEST(CallbackNestTest, AlsoThroughAThirdOne) {
  CallbackNest first;
  CallbackNest second;
  CallbackNest third;
  const Running outer(first);
  ASSERT_TRUE(second.BeginWait());
  std::thread([&] {
    const Running middle(second);
    ASSERT_TRUE(third.BeginWait());
    std::thread([&] {
      const Running inner(third);
      EXPECT_TRUE(first.IsCalling());
      EXPECT_FALSE(first.BeginWait());
    }).join();
    third.EndWait();
  }).join();
  second.EndWait();
}

// Two callbacks that run, each of which wants to wait for the other one's upload.
TEST(CallbackNestTest, OfTwoThatWouldWaitForEachOtherTheFirstDoes) {
  CallbackNest first;
  CallbackNest second;
  const Running here(first);
  ASSERT_TRUE(second.BeginWait());
  std::thread([&] {
    const Running there(second);
    EXPECT_FALSE(first.BeginWait());
  }).join();
  second.EndWait();
}

}  // namespace
}  // namespace kerf::c
