#include "server/routing/check_schedule.h"

#include <gtest/gtest.h>

#include "base/test_seed.h"

namespace kerf::routing {
namespace {

using std::chrono::milliseconds;

class CheckScheduleTest : public testing::Test {
 protected:
  // Records at the time when it is due; how long it waits from there.
  milliseconds Record(CheckResult result) {
    now_ = schedule_.due();
    schedule_.Record(result, now_, random_);
    return std::chrono::duration_cast<milliseconds>(schedule_.due() - now_);
  }
  static void ExpectWithin(milliseconds wait, milliseconds most) {
    EXPECT_LE(wait, most);
    EXPECT_GE(wait, most / 2);
  }

  Random random_{TestSeed()};
  CheckSchedule::TimePoint now_;
  CheckSchedule schedule_{{.interval = milliseconds(1000), .max_interval = milliseconds(5000)},
                          now_};
};

TEST_F(CheckScheduleTest, ANewWorkerIsAskedAtOnceAndNotUsedBefore) {
  EXPECT_EQ(schedule_.due(), now_);
  EXPECT_FALSE(schedule_.is_live());
  ExpectWithin(Record(CheckResult::kServing), milliseconds(1000));
  EXPECT_TRUE(schedule_.is_live());
}

TEST_F(CheckScheduleTest, WhoIsGoneIsAskedLessAndLessOften) {
  Record(CheckResult::kServing);
  Record(CheckResult::kUnreachable);
  for (const int most_ms : {1000, 2000, 4000, 5000, 5000}) {
    ExpectWithin(Record(CheckResult::kUnreachable), milliseconds(most_ms));
    EXPECT_FALSE(schedule_.is_live());
  }
  ExpectWithin(Record(CheckResult::kServing), milliseconds(1000));
  EXPECT_TRUE(schedule_.is_live());
  ExpectWithin(Record(CheckResult::kNotServing), milliseconds(1000));
  EXPECT_FALSE(schedule_.is_live());
}

TEST_F(CheckScheduleTest, WhoIsLateIsNotLost) {
  Record(CheckResult::kServing);
  for (int round = 0; round < 3; ++round) {
    for (int count = 1; count < kSilentChecksUntilLost; ++count) {
      ExpectWithin(Record(CheckResult::kSilent), milliseconds(1000));
      EXPECT_TRUE(schedule_.is_live());
    }
    Record(CheckResult::kServing);
  }
  for (int count = 1; count <= kSilentChecksUntilLost; ++count) Record(CheckResult::kSilent);
  EXPECT_FALSE(schedule_.is_live());
  // Nor does it come back by being late.
  Record(CheckResult::kSilent);
  EXPECT_FALSE(schedule_.is_live());
}

TEST_F(CheckScheduleTest, OneBrokenConnectionLosesNobody) {
  Record(CheckResult::kServing);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Record(CheckResult::kUnreachable), kUnreachablePause);
    EXPECT_TRUE(schedule_.is_live());
    ExpectWithin(Record(CheckResult::kServing), milliseconds(1000));
  }
  // Being late in between makes it no better.
  Record(CheckResult::kUnreachable);
  Record(CheckResult::kSilent);
  EXPECT_TRUE(schedule_.is_live());
  Record(CheckResult::kUnreachable);
  EXPECT_FALSE(schedule_.is_live());
  // Nor does a new worker live by it.
  CheckSchedule fresh({}, now_);
  fresh.Record(CheckResult::kUnreachable, now_, random_);
  EXPECT_FALSE(fresh.is_live());
}

TEST_F(CheckScheduleTest, WaitsDiffer) {
  milliseconds least(1000);
  milliseconds most(0);
  for (int count = 0; count < 200; ++count) {
    const milliseconds wait = Record(CheckResult::kServing);
    least = std::min(least, wait);
    most = std::max(most, wait);
  }
  EXPECT_LT(least, milliseconds(600));
  EXPECT_GT(most, milliseconds(900));
}

TEST_F(CheckScheduleTest, ADoubtBringsTheCheckForward) {
  Record(CheckResult::kServing);
  schedule_.Doubt(now_ + milliseconds(200));
  EXPECT_EQ(schedule_.due(), now_ + milliseconds(200));
  schedule_.Doubt(now_ + milliseconds(900));
  EXPECT_EQ(schedule_.due(), now_ + milliseconds(200));
  // However many doubt it, and how soon.
  Record(CheckResult::kServing);
  schedule_.Doubt(now_);
  EXPECT_EQ(schedule_.due(), now_ + kMinCheckPause);
}

}  // namespace
}  // namespace kerf::routing
