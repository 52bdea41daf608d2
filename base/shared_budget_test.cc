#include "base/shared_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

TEST(SharedBudget, OneAloneMayHaveAllOfIt) {
  SharedBudget budget(100);
  const auto share = budget.ShareOf(1);
  share->Take(99);
  EXPECT_TRUE(share->MayGrow());
  share->Take(1);
  EXPECT_FALSE(share->MayGrow());
  share->GiveBack(100);
  EXPECT_TRUE(share->MayGrow());
  EXPECT_EQ(budget.total().used_bytes(), 0u);
  EXPECT_EQ(budget.total().peak_bytes(), 100u);
}

TEST(SharedBudget, WhoComesLaterHasHisPart) {
  SharedBudget budget(100);
  const auto greedy = budget.ShareOf(1);
  greedy->Take(120);
  const auto honest = budget.ShareOf(2);
  EXPECT_TRUE(honest->MayGrow());
  EXPECT_EQ(honest->part_bytes(), 50u);
  honest->Take(29);
  EXPECT_EQ(honest->part_bytes(), 50u);
  EXPECT_EQ(greedy->part_bytes(), 50u);
  EXPECT_TRUE(honest->MayGrow());
  // Half of it as long as all have too much together.
  honest->Take(1);
  EXPECT_FALSE(honest->MayGrow());
  honest->GiveBack(6);
  EXPECT_TRUE(honest->MayGrow());
  honest->Take(6);
  greedy->GiveBack(70);
  EXPECT_TRUE(honest->MayGrow());
  EXPECT_FALSE(greedy->MayGrow());
  honest->Take(20);
  EXPECT_FALSE(honest->MayGrow());
  // Who has nothing any longer takes nothing from others.
  honest->GiveBack(50);
  EXPECT_TRUE(greedy->MayGrow());
  greedy->GiveBack(50);
}

// What has arrived is taken, however much it is: that of many streams is several times the limit.
TEST(SharedBudget, NobodyIsKeptFromHisPart) {
  SharedBudget budget(100);
  const auto greedy = budget.ShareOf(1);
  greedy->Take(500);
  const auto honest = budget.ShareOf(2);
  EXPECT_TRUE(honest->MayGrow());
  honest->Take(24);
  EXPECT_TRUE(honest->MayGrow());
  EXPECT_FALSE(greedy->MayGrow());
  honest->GiveBack(24);
  greedy->GiveBack(500);
}

TEST(SharedBudget, IsOneShareAsLongAsAnybodyHoldsIt) {
  SharedBudget budget(100);
  auto one = budget.ShareOf(7);
  const auto again = budget.ShareOf(7);
  EXPECT_EQ(one, again);
  EXPECT_NE(one, budget.ShareOf(8));
  one->Take(3);
  one.reset();
  EXPECT_EQ(budget.ShareOf(7)->used_bytes(), 3u);
  again->GiveBack(3);
}

TEST(SharedBudget, ManyThreadsLeaveNothingBehind) {
  SharedBudget budget(1000);
  constexpr std::uint64_t kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&budget, thread] {
      Random random(TestSeed() + thread);
      for (int round = 0; round < 2000; ++round) {
        const auto share = budget.ShareOf(random.Below(3));
        const std::size_t bytes = random.Below(5);
        share->Take(bytes);
        share->MayGrow();
        share->GiveBack(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.total().used_bytes(), 0u);
  // Nobody is counted who has nothing: one alone may have all.
  const auto share = budget.ShareOf(1);
  share->Take(999);
  EXPECT_TRUE(share->MayGrow());
  share->GiveBack(999);
}

}  // namespace
}  // namespace kerf
