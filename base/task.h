// Calls that wait without a thread, written as if they had one: coroutines.
#pragma once

#include <atomic>
#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace kerf {

// A call and its answer, which is awaited once: `Value value = co_await task;`. Either the answer
// is there already (anything that converts to Value is such a task, so that a function which never
// waits needs no coroutine), or a coroutine gives it, which begins when it is awaited and goes on
// in whatever thread answers what it awaits itself. Whoever awaits it goes on in that thread, too.
//
// A task that answers before it has waited for anything leaves nothing on the stack, however many
// of them are awaited one behind the other, and whatever the optimizer does: it returns to its
// awaiter and does not call it. No exception leaves a task.
//
// It may be destroyed before it is awaited, behind its answer, and, by whoever drives it (Start),
// where it waits, if nothing is left that would go on with it.
template <typename Value>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct GoOn {
        bool await_ready() noexcept { return false; }
        void await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
          promise_type& promise = ended.promise();
          const std::coroutine_handle<> next = promise.awaiter;
          // If it is the first to come here the frame may be gone behind this line.
          if (promise.has_met.exchange(true, std::memory_order_acq_rel)) next.resume();
        }
        void await_resume() noexcept {}
      };
      return GoOn();
    }
    template <typename Returned>
    void return_value(Returned&& returned) {
      value.emplace(std::forward<Returned>(returned));
    }
    void unhandled_exception() { std::terminate(); }

    std::coroutine_handle<> awaiter;
    // The end of the coroutine and the return to whoever has begun it meet here: the second one
    // goes on.
    std::atomic<bool> has_met{false};
    std::optional<Value> value;
  };

  template <typename Given>
    requires(!std::same_as<std::remove_cvref_t<Given>, Task> && std::convertible_to<Given, Value>)
  Task(Given&& given) : value_(std::in_place, std::forward<Given>(given)) {}

  Task(Task&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), value_(std::move(other.value_)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // For `co_await`.
  bool await_ready() const noexcept { return !handle_; }
  bool await_suspend(std::coroutine_handle<> awaiter) {
    promise_type& promise = handle_.promise();
    promise.awaiter = awaiter;
    handle_.resume();
    // If it is the first to come here, everything may be gone behind this line.
    return !promise.has_met.exchange(true, std::memory_order_acq_rel);
  }
  Value await_resume() { return TakeValue(); }

  // For whoever drives it from outside any coroutine: begins it, once. What it awaits goes on with
  // it; nobody is told when it is done.
  void Start() {
    if (handle_) handle_.resume();
  }
  // Only while nobody goes on with it.
  bool is_done() const { return !handle_ || handle_.done(); }
  // Once it is done, once.
  Value TakeValue() {
    std::optional<Value>& value = handle_ ? handle_.promise().value : value_;
    KERF_CHECK(value.has_value());
    return *std::move(value);
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  // Null: the answer is in value_.
  std::coroutine_handle<promise_type> handle_;
  std::optional<Value> value_;
};

// A whole call that nobody awaits: begins at once and frees itself at its end.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

}  // namespace kerf

// As KERF_RETURN_IF_ERROR and KERF_ASSIGN_OR_RETURN (base/status.h), in a coroutine.
#define KERF_CO_RETURN_IF_ERROR(expression)                  \
  do {                                                       \
    auto kerf_status = (expression);                         \
    if (!kerf_status.ok()) co_return std::move(kerf_status); \
  } while (false)
#define KERF_CO_ASSIGN_OR_RETURN(target, expression) \
  KERF_CO_ASSIGN_OR_RETURN_(KERF_CO_CONCAT(kerf_statusor_, __LINE__), target, expression)
#define KERF_CO_ASSIGN_OR_RETURN_(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) co_return std::move(result).status();     \
  target = *std::move(result)
#define KERF_CO_CONCAT_(a, b) a##b
#define KERF_CO_CONCAT(a, b) KERF_CO_CONCAT_(a, b)
