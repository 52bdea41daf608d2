// Answers that come in somebody else's thread, and work that is not to be done there.
#pragma once

#include <coroutine>
#include <utility>

#include "base/task.h"
#include "base/thread_pool.h"

namespace kerf {

// Awaited: goes on in a thread of the pool, which outlives that.
class ToPool {
 public:
  explicit ToPool(ThreadPool* pool) : pool_(*pool) {}
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) const {
    pool_.Post([awaiter] { awaiter.resume(); });
  }
  void await_resume() const {}

 private:
  ThreadPool& pool_;
};

template <typename Value>
Task<Value> AwaitOnPool(ThreadPool* pool, Task<Value> task) {
  Value value = co_await task;
  ToPool to_pool(pool);
  co_await to_pool;
  co_return value;
}

// The task's answer, in the caller's thread if it is there at once, and else in one of the pool.
template <typename Value>
Task<Value> OnPool(ThreadPool* pool, Task<Value> task) {
  if (task.await_ready()) return task;
  return AwaitOnPool(pool, std::move(task));
}

}  // namespace kerf
