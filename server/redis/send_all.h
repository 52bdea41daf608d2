// Awaits the answers of Redis: calls that go through several of them are tasks (base/task.h), which
// go on in the client's thread.
#pragma once

#include <coroutine>
#include <cstddef>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/redis/redis_client.h"

namespace kerf {

using RedisReplies = std::vector<absl::StatusOr<RedisReply>>;

// Awaited, it sends the commands and gives their answers, in the same order, once all are there.
//
// They are sent in their order, and at most `max_open_count` wait for an answer at a time: others'
// commands go over the same connections, and those of a lookup would wait behind the thousands of a
// Forget. Time counts for all from when the first one was sent. Behind one that was not answered
// none is sent any more: the others get its status.
class SendAll {
 public:
  // Enough to keep every master busy while answers are on their way; a lookup that comes between
  // waits for some milliseconds.
  static constexpr std::size_t kMaxOpenCount = 512;

  SendAll(RedisClient& client, std::vector<RedisCommand> commands,
          std::size_t max_open_count = kMaxOpenCount);

  bool await_ready() const { return commands_.empty(); }
  bool await_suspend(std::coroutine_handle<> awaiter);
  RedisReplies await_resume();

 private:
  // Sends what may be sent. True if all are answered, and whoever awaits them has to go on: behind
  // the lock this object may be gone then.
  bool SendMore(std::unique_lock<std::mutex>& lock);
  void TakeReply(std::size_t index, absl::StatusOr<RedisReply> reply);

  RedisClient& client_;
  const std::size_t max_open_count_;
  std::vector<RedisCommand> commands_;
  RedisReplies replies_;
  std::coroutine_handle<> awaiter_;
  std::mutex mutex_;
  // One thread at a time, so that they are sent in their order.
  bool is_sending_ = false;
  std::size_t sent_count_ = 0;
  std::size_t answered_count_ = 0;
  // Of the first one that was not answered.
  absl::Status failed_;
};

}  // namespace kerf
