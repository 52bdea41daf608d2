#include "base/places.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace kerf {
namespace {

TEST(PlacesTest, SoManyForEachAndNoMore) {
  Places places;
  auto first = places.Enter("a", 2);
  auto second = places.Enter("a", 2);
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(places.Enter("a", 2).has_value());
  EXPECT_TRUE(places.Enter("b", 1).has_value());
  // The limit is what it is now.
  EXPECT_TRUE(places.Enter("a", 3).has_value());
  EXPECT_FALSE(places.Enter("nobody", 0).has_value());
  first.reset();
  EXPECT_TRUE(places.Enter("a", 2).has_value());
}

TEST(PlacesTest, AHoldGivesItsPlaceBackOnce) {
  Places places;
  Places::Hold none;
  none.Reset();
  Places::Hold moved = *places.Enter("a", 1);
  Places::Hold taken = std::move(moved);
  EXPECT_FALSE(places.Enter("a", 1).has_value());
  taken.Reset();
  taken.Reset();
  Places::Hold again = *places.Enter("a", 1);
  // What it held before goes.
  taken = *places.Enter("b", 1);
  taken = std::move(again);
  EXPECT_TRUE(places.Enter("b", 1).has_value());
  EXPECT_FALSE(places.Enter("a", 1).has_value());
}

TEST(PlacesTest, ManyAtOnce) {
  constexpr int kLimit = 3;
  Places places;
  std::atomic<int> inside{0};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2'000; ++round) {
        const auto hold = places.Enter("a", kLimit);
        if (!hold.has_value()) continue;
        if (inside.fetch_add(1) >= kLimit) is_over = true;
        inside.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(is_over);
  std::vector<Places::Hold> all;
  while (auto hold = places.Enter("a", kLimit)) all.push_back(*std::move(hold));
  EXPECT_EQ(all.size(), std::size_t{kLimit});
}

}  // namespace
}  // namespace kerf
