#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/thread_pool.h"

namespace kerf {
namespace {

TEST(MemoryBudget, HoldsItsLimit) {
  MemoryBudget budget(100);
  EXPECT_TRUE(budget.TryReserve(60));
  EXPECT_FALSE(budget.TryReserve(41));
  EXPECT_TRUE(budget.TryReserve(40));
  EXPECT_TRUE(budget.is_exhausted());
  budget.ForceReserve(10);
  EXPECT_FALSE(budget.TryReserve(0));
  budget.Release(110);
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_EQ(budget.peak_bytes(), 110u);
  EXPECT_FALSE(budget.TryReserve(SIZE_MAX));
}

TEST(MemoryBudget, ReservationsGoBack) {
  MemoryBudget budget(100);
  {
    Reservation reservation(&budget);
    EXPECT_TRUE(reservation.Set(80));
    EXPECT_FALSE(reservation.Set(101));
    EXPECT_EQ(reservation.bytes(), 80u);
    EXPECT_TRUE(reservation.Set(20));
    EXPECT_EQ(budget.used_bytes(), 20u);
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(MemoryBudget, WakesEachWaiterOnce) {
  MemoryBudget budget(10);
  ASSERT_TRUE(budget.TryReserve(10));
  int woken = 0;
  budget.WakeOnRelease([&] { ++woken; });
  budget.WakeOnRelease([&] { ++woken; });
  budget.Release(1);
  EXPECT_EQ(woken, 2);
  budget.Release(1);
  EXPECT_EQ(woken, 2);
}

// Each task needs the whole budget; whoever does not get it waits as a stream does. If a wake-up
// were lost, this would never end.
TEST(MemoryBudget, NoWakeUpIsLost) {
  constexpr int kTasks = 16;
  constexpr int kRounds = 500;
  MemoryBudget budget(1);
  std::atomic<int> holders{0};
  std::atomic<int> finished{0};
  {
    ThreadPool pool(4);
    std::function<void(int)> run = [&](int rounds) {
      if (rounds == 0) {
        ++finished;
        return;
      }
      if (!budget.TryReserve(1)) {
        auto once = std::make_shared<std::atomic<bool>>(false);
        const auto again = [&, rounds, once] {
          if (!once->exchange(true)) pool.Post([&, rounds] { run(rounds); });
        };
        budget.WakeOnRelease(again);
        // The second try that the contract asks for.
        if (!budget.TryReserve(1)) return;
        if (once->exchange(true)) {
          budget.Release(1);
          return;
        }
      }
      EXPECT_EQ(++holders, 1);
      --holders;
      budget.Release(1);
      pool.Post([&, rounds] { run(rounds - 1); });
    };
    for (int task = 0; task < kTasks; ++task) pool.Post([&] { run(kRounds); });
    while (finished.load() < kTasks) std::this_thread::yield();
  }
  EXPECT_EQ(finished.load(), kTasks);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

}  // namespace
}  // namespace kerf
