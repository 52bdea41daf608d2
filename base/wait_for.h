// For callers of tasks that have a thread to wait in.
#pragma once

#include <future>
#include <utility>

#include "base/task.h"

namespace kerf {

// The task's answer. Not in a thread that the answer needs.
template <typename Value>
Value WaitFor(Task<Value> task) {
  if (task.await_ready()) return task.TakeValue();
  std::promise<Value> answer;
  std::future<Value> answered = answer.get_future();
  // They go with the coroutine: its last steps may come behind this function's return.
  [](Task<Value> own, std::promise<Value> own_answer) -> Detached {
    own_answer.set_value(co_await own);
  }(std::move(task), std::move(answer));
  return answered.get();
}

}  // namespace kerf
