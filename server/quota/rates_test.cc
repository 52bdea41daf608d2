#include "server/quota/rates.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace kerf {
namespace {

using std::chrono::seconds;

class RatesTest : public ::testing::Test {
 protected:
  static constexpr double kPerSecond = 10;

  bool TryAdd(const std::string& key, double amount) {
    return rates_.TryAdd(key, kPerSecond, kPerSecond, amount, now_);
  }
  double At(const std::string& key) { return rates_.At(key, kPerSecond, now_); }

  Rates<std::string> rates_{3};
  TimePoint now_{std::chrono::hours(1)};
};

TEST_F(RatesTest, RisesWithUseAndFallsWithTime) {
  EXPECT_EQ(At("a"), 0);
  rates_.Add("a", kPerSecond, 25, now_);
  EXPECT_DOUBLE_EQ(At("a"), 25);
  EXPECT_EQ(At("b"), 0);
  now_ += seconds(2);
  EXPECT_DOUBLE_EQ(At("a"), 5);
  // No credit for what was not used.
  now_ += seconds(100);
  rates_.Add("a", kPerSecond, 1, now_);
  EXPECT_DOUBLE_EQ(At("a"), 1);
  rates_.Add("a", kPerSecond, -7, now_);
  EXPECT_EQ(At("a"), 0);
}

TEST_F(RatesTest, WhatGoesBeyondIsOwed) {
  EXPECT_TRUE(TryAdd("a", 9));
  EXPECT_TRUE(TryAdd("a", 51));
  EXPECT_FALSE(TryAdd("a", 1));
  EXPECT_DOUBLE_EQ(At("a"), 60);
  now_ += seconds(5);
  EXPECT_FALSE(TryAdd("a", 1));
  now_ += std::chrono::milliseconds(1);
  EXPECT_TRUE(TryAdd("a", 1));
}

// Whatever is asked for, and whenever.
TEST_F(RatesTest, OnAverageNoMoreIsLetBy) {
  double used = 0;
  for (int step = 0; step < 100'000; ++step) {
    const double amount = 1 + step % 13;
    if (TryAdd("a", amount)) used += amount;
    now_ += std::chrono::milliseconds(step % 7);
  }
  const double passed_s = 100'000 * 3.0 / 1000;
  EXPECT_LE(used, kPerSecond * passed_s + kPerSecond + 13);
  EXPECT_GE(used, 0.9 * kPerSecond * passed_s);
}

TEST_F(RatesTest, WhoHasUsedLeastIsForgotten) {
  rates_.Add("much", kPerSecond, 1000, now_);
  rates_.Add("some", kPerSecond, 50, now_);
  rates_.Add("a", kPerSecond, 40, now_);
  rates_.Add("b", kPerSecond, 45, now_);
  EXPECT_EQ(At("a"), 0);
  EXPECT_DOUBLE_EQ(At("b"), 45);
  // What has fallen to nothing goes first.
  now_ += seconds(5);
  rates_.Add("c", kPerSecond, 1, now_);
  rates_.Add("d", kPerSecond, 2, now_);
  EXPECT_DOUBLE_EQ(At("much"), 950);
  EXPECT_DOUBLE_EQ(At("c"), 1);
  EXPECT_DOUBLE_EQ(At("d"), 2);
  rates_.Forget("much");
  rates_.Forget("nobody");
  EXPECT_EQ(At("much"), 0);
}

// By how long it takes to be used up: whoever may use more does not look as if he had.
TEST_F(RatesTest, RatesMayDiffer) {
  rates_.Add("fast", 1e9, 1e6, now_);
  rates_.Add("slow", 1, 100, now_);
  rates_.Add("a", kPerSecond, 40, now_);
  rates_.Add("b", kPerSecond, 45, now_);
  EXPECT_EQ(rates_.At("fast", 1e9, now_), 0);
  EXPECT_DOUBLE_EQ(rates_.At("slow", 1, now_), 100);
}

}  // namespace
}  // namespace kerf
