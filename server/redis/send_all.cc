#include "server/redis/send_all.h"

#include <chrono>
#include <utility>

namespace kerf {

SendAll::SendAll(RedisClient& client, std::vector<RedisCommand> commands,
                 std::size_t max_open_count)
    : client_(client),
      max_open_count_(max_open_count),
      commands_(std::move(commands)),
      replies_(commands_.size(), absl::UnknownError("")) {}

bool SendAll::await_suspend(std::coroutine_handle<> awaiter) {
  awaiter_ = awaiter;
  const auto now = std::chrono::steady_clock::now();
  for (RedisCommand& command : commands_) command.asked_at = now;
  std::unique_lock lock(mutex_);
  return !SendMore(lock);
}

RedisReplies SendAll::await_resume() { return std::move(replies_); }

bool SendAll::SendMore(std::unique_lock<std::mutex>& lock) {
  // That one sees what has been answered meanwhile.
  if (is_sending_) return false;
  is_sending_ = true;
  while (failed_.ok() && sent_count_ < commands_.size() &&
         sent_count_ - answered_count_ < max_open_count_) {
    const std::size_t index = sent_count_++;
    lock.unlock();
    // May be answered before it returns.
    client_.Send(std::move(commands_[index]), [this, index](absl::StatusOr<RedisReply> reply) {
      TakeReply(index, std::move(reply));
    });
    lock.lock();
  }
  is_sending_ = false;
  if (answered_count_ < sent_count_) return false;
  // Those that are not sent any more.
  for (std::size_t index = sent_count_; index < replies_.size(); ++index) replies_[index] = failed_;
  return true;
}

void SendAll::TakeReply(std::size_t index, absl::StatusOr<RedisReply> reply) {
  std::unique_lock lock(mutex_);
  if (!reply.ok() && failed_.ok()) failed_ = reply.status();
  replies_[index] = std::move(reply);
  ++answered_count_;
  if (!SendMore(lock)) return;
  const std::coroutine_handle<> awaiter = awaiter_;
  lock.unlock();
  awaiter.resume();
}

}  // namespace kerf
