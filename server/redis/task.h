// Calls that go through several answers of Redis, written as if they waited: coroutines that go on
// in the client's thread.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/redis/redis_client.h"

namespace kerf {

// A part of a call; runs when it is awaited, once.
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
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
          return ended.promise().whoever_awaits;
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

    std::coroutine_handle<> whoever_awaits;
    std::optional<Value> value;
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaits) {
    handle_.promise().whoever_awaits = awaits;
    return handle_;
  }
  Value await_resume() { return *std::move(handle_.promise().value); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

// A whole call: begins at once and frees itself at its end.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

using RedisReplies = std::vector<absl::StatusOr<RedisReply>>;

// Awaited, it sends the commands and gives their answers, in the same order, once all are there.
class SendAll {
 public:
  SendAll(RedisClient& client, std::vector<RedisCommand> commands)
      : client_(client),
        commands_(std::move(commands)),
        replies_(commands_.size(), absl::UnknownError("")) {}

  bool await_ready() const { return commands_.empty(); }
  bool await_suspend(std::coroutine_handle<> awaits) {
    open_count_.store(commands_.size() + 1);
    for (std::size_t index = 0; index < commands_.size(); ++index) {
      client_.Send(std::move(commands_[index]),
                   [this, index, awaits](absl::StatusOr<RedisReply> reply) {
                     replies_[index] = std::move(reply);
                     if (open_count_.fetch_sub(1) == 1) awaits.resume();
                   });
    }
    // Whoever is last goes on; this object may be gone behind this line.
    return open_count_.fetch_sub(1) != 1;
  }
  RedisReplies await_resume() { return std::move(replies_); }

 private:
  RedisClient& client_;
  std::vector<RedisCommand> commands_;
  RedisReplies replies_;
  std::atomic<std::size_t> open_count_{0};
};

}  // namespace kerf
