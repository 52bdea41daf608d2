#include "server/edge/on_pool.h"

#include <gtest/gtest.h>

#include <coroutine>
#include <future>
#include <thread>

namespace kerf {
namespace {

// Awaited, it goes on when and where the test says so.
class Gate {
 public:
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) { waiting_.set_value(awaiter); }
  void await_resume() const {}

  void Open() { waiting_.get_future().get().resume(); }

 private:
  std::promise<std::coroutine_handle<>> waiting_;
};

Task<int> BehindGate(Gate* gate) {
  co_await *gate;
  co_return 7;
}

Detached Ask(ThreadPool* pool, Task<int> task, std::promise<std::thread::id>* went_on) {
  const int value = co_await OnPool(pool, std::move(task));
  EXPECT_EQ(value, 7);
  went_on->set_value(std::this_thread::get_id());
}

// Whoever answers for an index has other calls to answer, and no time to encode this one.
TEST(OnPool, WhoeverAnswersDoesNoneOfTheWork) {
  ThreadPool pool(1);
  std::promise<std::thread::id> pool_thread;
  pool.Post([&] { pool_thread.set_value(std::this_thread::get_id()); });
  Gate gate;
  std::promise<std::thread::id> went_on;
  Ask(&pool, BehindGate(&gate), &went_on);
  gate.Open();
  EXPECT_EQ(went_on.get_future().get(), pool_thread.get_future().get());
}

TEST(OnPool, WhatIsThereAtOnceStaysInItsThread) {
  ThreadPool pool(1);
  std::promise<std::thread::id> went_on;
  Ask(&pool, Task<int>(7), &went_on);
  EXPECT_EQ(went_on.get_future().get(), std::this_thread::get_id());
}

}  // namespace
}  // namespace kerf
