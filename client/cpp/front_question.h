// A question to a front while a stream past it is silent: whether the worker still has the key.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cpp/call_cancellation.h"
#include "client/cpp/server_address.h"

namespace kerf::client {

// Ask is for one thread at a time, Cancel for any.
class FrontQuestion {
 public:
  FrontQuestion(std::string shard_key, std::chrono::milliseconds pause)
      : shard_key_(std::move(shard_key)), pause_(pause) {}
  FrontQuestion(const FrontQuestion&) = delete;
  FrontQuestion& operator=(const FrontQuestion&) = delete;
  // Cancels it.
  ~FrontQuestion();

  // Does not wait, and does nothing while a question is under way or was asked less than `pause`
  // ago. If the front at `front` has another worker in the place of that at `worker`, those of
  // `avoided` left out as when that was located, `on_other` is called from another thread.
  void Ask(const ServerAddress& front, const std::string& worker, std::vector<std::string> avoided,
           std::function<void()> on_other);
  // Ends the one that is under way, and all that come.
  void Cancel() { cancellation_.Cancel(); }

 private:
  const std::string shard_key_;
  const std::chrono::milliseconds pause_;
  CallCancellation cancellation_;
  std::atomic<bool> is_under_way_{false};
  std::chrono::steady_clock::time_point next_;
  std::thread thread_;
};

}  // namespace kerf::client
