#include "base/task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "base/test_seed.h"
#include "base/wait_for.h"

namespace kerf {
namespace {

// Awaited, it goes on in a thread of its own, after a while.
struct OnOtherThread {
  std::uint64_t spin_count = 0;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) const {
    std::thread([awaiter, spins = spin_count] {
      std::atomic<std::uint64_t> left = spins;
      while (left.load() > 0) --left;
      awaiter.resume();
    }).detach();
  }
  void await_resume() const {}
};

// Awaited, it leaves the awaiter in `at`, for the test to go on with.
struct Parked {
  std::coroutine_handle<>* at;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) const { *at = awaiter; }
  void await_resume() const {}
};

Task<int> Immediate(int value) { co_return value; }

Task<int> Late(int value, std::uint64_t spin_count) {
  OnOtherThread there{spin_count};
  co_await there;
  co_return value;
}

Task<int> Given(int value) { return value; }

Task<absl::StatusOr<std::string>> Text(bool is_there) {
  if (!is_there) return absl::NotFoundError("no text");
  return "text";
}

TEST(Task, AnAnswerThatIsThereNeedsNoCoroutine) {
  EXPECT_EQ(WaitFor(Given(7)), 7);
  EXPECT_EQ(*WaitFor(Text(true)), "text");
  EXPECT_TRUE(absl::IsNotFound(WaitFor(Text(false)).status()));
}

TEST(Task, BeginsWhenItIsAwaitedAndNotBefore) {
  bool has_begun = false;
  const auto call = [](bool* begun) -> Task<int> {
    *begun = true;
    co_return 1;
  };
  {
    const Task<int> dropped = call(&has_begun);
  }
  EXPECT_FALSE(has_begun);
  EXPECT_EQ(WaitFor(call(&has_begun)), 1);
  EXPECT_TRUE(has_begun);
}

// An index at hand answers each batch before it returns: a stack that grew by a frame for each
// would end here, with any optimization.
TEST(Task, AnswersAtOnceWithoutGrowingTheStack) {
  const auto sum = []() -> Task<std::uint64_t> {
    std::uint64_t total = 0;
    for (int round = 0; round < 2'000'000; ++round) {
      Task<int> one = round % 2 == 0 ? Immediate(1) : Given(1);
      total += static_cast<std::uint64_t>(co_await one);
    }
    co_return total;
  };
  EXPECT_EQ(WaitFor(sum()), 2'000'000u);
}

// As long as answers come from elsewhere, each awaiter goes on where its task has ended.
TEST(Task, AnswersLateWithoutGrowingTheStack) {
  std::coroutine_handle<> at;
  const auto step = [](std::coroutine_handle<>* parked) -> Task<int> {
    Parked park{parked};
    co_await park;
    co_return 1;
  };
  const auto sum = [&]() -> Task<int> {
    int total = 0;
    for (int round = 0; round < 300'000; ++round) {
      Task<int> one = step(&at);
      total += co_await one;
    }
    co_return total;
  };
  Task<int> task = sum();
  task.Start();
  while (!task.is_done()) at.resume();
  EXPECT_EQ(task.TakeValue(), 300'000);
}

// The answer comes while the awaiter is still on its way to sleep, before, and after that.
TEST(Task, AnAnswerMayComeAtAnyMoment) {
  Random random(TestSeed());
  for (int round = 0; round < 2'000; ++round) {
    const auto both = [&random]() -> Task<int> {
      Task<int> first = Late(1, random.Below(300));
      const int one = co_await first;
      Task<int> second = Late(2, random.Below(300));
      co_return one + co_await second;
    };
    ASSERT_EQ(WaitFor(both()), 3);
  }
}

absl::Status Fail(bool fails) { return fails ? absl::AbortedError("so") : absl::OkStatus(); }

Task<absl::StatusOr<int>> Chain(bool fails_first, bool fails_then) {
  KERF_CO_RETURN_IF_ERROR(Fail(fails_first));
  Task<absl::StatusOr<std::string>> ask = Text(!fails_then);
  KERF_CO_ASSIGN_OR_RETURN(const std::string text, co_await ask);
  co_return static_cast<int>(text.size());
}

TEST(Task, ErrorsReturnEarly) {
  EXPECT_EQ(*WaitFor(Chain(false, false)), 4);
  EXPECT_TRUE(absl::IsAborted(WaitFor(Chain(true, false)).status()));
  EXPECT_TRUE(absl::IsNotFound(WaitFor(Chain(false, true)).status()));
}

// Whoever drives a task may destroy it where it waits: all that its coroutines hold goes with it.
TEST(Task, DestroyedWhereItWaitsItLetsGoOfEverything) {
  std::coroutine_handle<> at;
  const auto held = std::make_shared<int>(1);
  const auto inner = [](std::shared_ptr<int> own, std::coroutine_handle<>* parked) -> Task<int> {
    Parked park{parked};
    co_await park;
    co_return *own;
  };
  const auto outer = [&](std::shared_ptr<int> own) -> Task<int> {
    Task<int> task = inner(own, &at);
    co_return co_await task + *own;
  };
  {
    Task<int> task = outer(held);
    task.Start();
    EXPECT_FALSE(task.is_done());
    EXPECT_GT(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Task, ADetachedCallFreesItself) {
  std::coroutine_handle<> at;
  const auto held = std::make_shared<int>(1);
  [](std::shared_ptr<int> own, std::coroutine_handle<>* parked) -> Detached {
    Parked park{parked};
    co_await park;
    *own = 2;
  }(held, &at);
  EXPECT_EQ(held.use_count(), 2);
  at.resume();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(*held, 2);
}

TEST(TaskDeathTest, AValueIsTakenOnceItIsThere) {
  std::coroutine_handle<> at;
  const auto call = [](std::coroutine_handle<>* parked) -> Task<int> {
    Parked park{parked};
    co_await park;
    co_return 1;
  };
  Task<int> task = call(&at);
  task.Start();
  EXPECT_DEATH(task.TakeValue(), "has_value");
}

}  // namespace
}  // namespace kerf
