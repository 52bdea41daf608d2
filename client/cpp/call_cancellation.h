// Lets one thread end the call that another one makes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "grpcpp/client_context.h"

namespace kerf::client {

// Of calls that are made one after the other. Thread-safe.
class CallCancellation {
 public:
  // Ends the call that runs, and each one that begins later, with Cancelled.
  void Cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (call_ != nullptr) call_->TryCancel();
    changed_.notify_all();
  }
  bool cancelled() const { return cancelled_; }
  // Between two calls. Returns when the time has passed or Cancel was called: whether it was.
  bool Wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return cancelled_.load(); });
  }

  // While it lives, Cancel ends `call`, also one that has not begun.
  class Scope {
   public:
    Scope(CallCancellation& cancellation, grpc::ClientContext& call) : cancellation_(cancellation) {
      const std::lock_guard lock(cancellation_.mutex_);
      cancellation_.call_ = &call;
      if (cancellation_.cancelled_) call.TryCancel();
    }
    ~Scope() {
      const std::lock_guard lock(cancellation_.mutex_);
      cancellation_.call_ = nullptr;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CallCancellation& cancellation_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> cancelled_{false};
  grpc::ClientContext* call_ = nullptr;
};

}  // namespace kerf::client
