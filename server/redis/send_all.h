// Awaits the answers of Redis: calls that go through several of them are tasks (base/task.h), which
// go on in the client's thread.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/redis/redis_client.h"

namespace kerf {

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
