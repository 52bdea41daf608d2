#include "client/fs/stamp_clock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "base/unique_fd.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

constexpr Timestamp kNow = {1'800'000'000, 500'000'000};

bool SettledHere(std::int64_t seconds, std::uint32_t nanoseconds) {
  return IsSettled({seconds, nanoseconds}, kNow, StampedBy::kThisMachine);
}
bool SettledElsewhere(std::int64_t seconds, std::uint32_t nanoseconds) {
  return IsSettled({seconds, nanoseconds}, kNow, StampedBy::kSomebodyElse);
}

TEST(StampClock, TwoSecondsMustHavePassedHere) {
  EXPECT_TRUE(SettledHere(1'799'999'998, 500'000'000));
  EXPECT_FALSE(SettledHere(1'799'999'998, 500'000'001));
  EXPECT_TRUE(SettledHere(1'799'999'998, 0));
  EXPECT_FALSE(SettledHere(1'799'999'999, 0)) << "a file system may count in twos of seconds";
  EXPECT_FALSE(SettledHere(1'800'000'000, 499'999'999));
}

TEST(StampClock, AnHourMustHavePassedWhereAnotherClockStamps) {
  EXPECT_TRUE(SettledElsewhere(1'799'996'400, 500'000'000));
  EXPECT_FALSE(SettledElsewhere(1'799'996'400, 500'000'001));
  EXPECT_FALSE(SettledElsewhere(1'799'999'000, 0));
}

TEST(StampClock, TheFutureIsNotSettledHoweverFarItIs) {
  for (const std::int64_t seconds : {kNow.seconds, kNow.seconds + 1, kNow.seconds * 2, INT64_MAX}) {
    EXPECT_FALSE(SettledHere(seconds, 999'999'999)) << seconds;
    EXPECT_FALSE(SettledElsewhere(seconds, 999'999'999)) << seconds;
  }
  EXPECT_TRUE(SettledHere(-1, 0)) << "before 1970";
  EXPECT_TRUE(SettledHere(INT64_MIN, 0));
}

TEST(StampClock, NoTimeAtAllIsNotSettled) {
  EXPECT_FALSE(SettledHere(0, 0));
  EXPECT_FALSE(SettledElsewhere(0, 0));
  EXPECT_TRUE(SettledHere(0, 1));
}

TEST(StampClock, WhatAnybodySetsIsNeverSettled) {
  EXPECT_FALSE(IsSettled({1'700'000'000, 0}, kNow, StampedBy::kAnybody));
  EXPECT_FALSE(IsSettled({-1, 0}, kNow, StampedBy::kAnybody));
}

// What is written now gets no ctime before what the clock showed, and none behind what it shows
// then: it is the clock that stamps.
TEST(StampClock, IsTheOneThatStamps) {
  const testing::TemporaryDirectory directory;
  const std::string file = directory / "file";
  std::ofstream(file) << "x";
  if (WhoStamps(UniqueFd(open(file.c_str(), O_RDONLY)).get()) != StampedBy::kThisMachine) {
    GTEST_SKIP() << "another clock stamps here";
  }
  for (int round = 0; round < 200; ++round) {
    const Timestamp before = StampClockNow();
    std::ofstream(file, std::ios::app) << "x";
    struct stat status{};
    ASSERT_EQ(stat(file.c_str(), &status), 0);
    const Timestamp changed{status.st_ctim.tv_sec,
                            static_cast<std::uint32_t>(status.st_ctim.tv_nsec)};
    ASSERT_GE(changed.seconds, before.seconds);
    ASSERT_FALSE(IsSettled(changed, StampClockNow(), StampedBy::kThisMachine));
  }
}

TEST(StampClock, AFileSystemOfTheKernelIsNobodysToWrite) {
  const UniqueFd proc(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(proc.valid());
  EXPECT_EQ(WhoStamps(proc.get()), StampedBy::kSomebodyElse);
  EXPECT_EQ(WhoStamps(-1), StampedBy::kSomebodyElse);
}

}  // namespace
}  // namespace kerf::agent
