// For callers that have a thread to wait in.
#pragma once

#include <functional>
#include <future>

namespace kerf {

// Waits for the answer of the call that `begin` makes with what it is given as `done`. Not in the
// thread that answers.
template <typename Value>
Value WaitFor(const std::function<void(std::function<void(const Value&)>)>& begin) {
  std::promise<Value> answer;
  begin([&answer](const Value& value) { answer.set_value(value); });
  return answer.get_future().get();
}

}  // namespace kerf
