// Ends the calls that a verb makes of a server when it is interrupted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "client/cli/context.h"
#include "client/cpp/call_cancellation.h"

namespace kerf::agent {

// Watches from a thread of its own for as long as it lives.
class InterruptedCalls {
 public:
  explicit InterruptedCalls(const Context& context)
      : thread_([this, &context](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          while (!context.cancelled) {
            changed_.wait_for(lock, stop, kInterval, [] { return false; });
            if (stop.stop_requested()) return;
          }
          cancellation_.Cancel();
        }) {}

  // For all calls that are to end.
  client::CallCancellation& cancellation() { return cancellation_; }

 private:
  static constexpr std::chrono::milliseconds kInterval{50};

  client::CallCancellation cancellation_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Last, so that it ends first.
  std::jthread thread_;
};

}  // namespace kerf::agent
