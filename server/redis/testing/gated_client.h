// Lets a test say when each command of an index goes to Redis.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/redis/redis_client.h"

namespace kerf {

// Passes everything on, and while it is shut holds the commands about keys of repositories until
// they are let through. Thread-safe.
class GatedClient final : public RedisClient {
 public:
  explicit GatedClient(std::unique_ptr<RedisClient> client) : client_(std::move(client)) {}
  ~GatedClient() override { GatedClient::Close(); }

  void Send(RedisCommand command, Done done) override {
    {
      const std::lock_guard lock(mutex_);
      if (is_shut_ && IsHeld(command)) {
        held_.push_back({std::move(command), std::move(done)});
        return;
      }
    }
    client_->Send(std::move(command), std::move(done));
  }
  void ReadMasters(MastersDone done, std::chrono::milliseconds timeout) override {
    client_->ReadMasters(std::move(done), timeout);
  }
  void ReadSlots(SlotsDone done) override { client_->ReadSlots(std::move(done)); }
  void Close() override {
    LetThrough(static_cast<std::size_t>(-1));
    client_->Close();
  }
  void ExpectIdentity(std::vector<std::string> known) override {
    client_->ExpectIdentity(std::move(known));
  }
  RedisCounters counters() const override { return client_->counters(); }
  std::optional<std::int64_t> certificate_expires_at_s() const override {
    return client_->certificate_expires_at_s();
  }

  // Opens when nothing is held any more.
  void Shut(bool is_shut) {
    const std::lock_guard lock(mutex_);
    KERF_CHECK(held_.empty());
    is_shut_ = is_shut;
  }
  std::size_t held_count() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }

  // The first `count` of those that are held; returns once each is answered, and what follows from
  // the answers has been done: a call has ended, or has sent what is held next.
  void LetThrough(std::size_t count) {
    std::deque<Held> now;
    {
      const std::lock_guard lock(mutex_);
      for (; count > 0 && !held_.empty(); --count) {
        now.push_back(std::move(held_.front()));
        held_.pop_front();
      }
      under_way_ += now.size();
    }
    for (Held& held : now) {
      {
        const std::lock_guard lock(mutex_);
        passed_.push_back(held.command);
      }
      client_->Send(std::move(held.command),
                    [this, done = std::move(held.done)](absl::StatusOr<RedisReply> reply) {
                      done(std::move(reply));
                      const std::lock_guard lock(mutex_);
                      --under_way_;
                      changed_.notify_all();
                    });
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return under_way_ == 0; });
  }

  // All that were let through, in order, since this was last asked.
  std::vector<RedisCommand> TakePassed() {
    const std::lock_guard lock(mutex_);
    return std::exchange(passed_, {});
  }

 private:
  struct Held {
    RedisCommand command;
    Done done;
  };

  static bool IsHeld(const RedisCommand& command) {
    return !command.node.has_value() && command.key != kIdentityKey;
  }

  const std::unique_ptr<RedisClient> client_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_shut_ = false;
  std::size_t under_way_ = 0;
  std::deque<Held> held_;
  std::vector<RedisCommand> passed_;
};

}  // namespace kerf
