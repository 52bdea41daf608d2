// Calls that wait for one of two: their answer, or their deadline.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "server/net/clock.h"

namespace kerf {

// One call, and the coroutine that waits for it. What belongs to a call derives from this.
class PendingCall {
 public:
  enum class End : std::uint8_t { kNone, kAnswered, kLate, kClosed };

  PendingCall() = default;
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;
  virtual ~PendingCall() = default;

  // Awaited, by one coroutine: how the call has ended, once it has.
  class Ended {
   public:
    explicit Ended(PendingCall* call) : call_(*call) {}
    bool await_ready() const { return false; }
    bool await_suspend(std::coroutine_handle<> waiter) const {
      call_.waiter_ = waiter;
      // If it is the second to come here the call has ended already.
      return !call_.has_met_.exchange(true, std::memory_order_acq_rel);
    }
    End await_resume() const { return call_.end_; }

   private:
    PendingCall& call_;
  };

  // By whoever has ended it: what waits for it goes on, in this thread if it sleeps.
  void GoOn() {
    if (has_met_.exchange(true, std::memory_order_acq_rel)) waiter_.resume();
  }

 private:
  friend class PendingCalls;

  std::coroutine_handle<> waiter_;
  // Its end and its waiter's going to sleep meet here: the second one goes on.
  std::atomic<bool> has_met_{false};
  // The rest is the table's while it is there; `end_` is written as it leaves.
  End end_ = End::kNone;
  TimePoint deadline_;
  std::list<std::shared_ptr<PendingCall>>::iterator at_;
};

// All that are under way. A call leaves it once, and whoever has made it leave calls its GoOn: so
// that is done once, whoever else would end it at the same time. Thread-safe.
class PendingCalls {
 public:
  // False: it is closed, and nothing happened.
  bool Begin(std::shared_ptr<PendingCall> call, TimePoint deadline) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    PendingCall& added = *call;
    added.deadline_ = deadline;
    added.at_ = calls_.insert(calls_.end(), std::move(call));
    return true;
  }

  // Whether the answer comes first: then the caller has ended it.
  [[nodiscard]] bool EndAnswered(PendingCall& call) {
    const std::lock_guard lock(mutex_);
    if (call.end_ != PendingCall::End::kNone) return false;
    call.end_ = PendingCall::End::kAnswered;
    calls_.erase(call.at_);
    return true;
  }

  // Ends those whose deadline has come. All have the same patience, so that they stand in order.
  [[nodiscard]] std::vector<std::shared_ptr<PendingCall>> EndLate(TimePoint now) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<PendingCall>> ended;
    while (!calls_.empty() && calls_.front()->deadline_ <= now) {
      ended.push_back(TakeFirstLocked(PendingCall::End::kLate));
    }
    return ended;
  }

  // Ends all, and takes no more.
  [[nodiscard]] std::vector<std::shared_ptr<PendingCall>> Close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    std::vector<std::shared_ptr<PendingCall>> ended;
    while (!calls_.empty()) ended.push_back(TakeFirstLocked(PendingCall::End::kClosed));
    return ended;
  }

  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return calls_.size();
  }

 private:
  std::shared_ptr<PendingCall> TakeFirstLocked(PendingCall::End end) {
    std::shared_ptr<PendingCall> call = std::move(calls_.front());
    calls_.pop_front();
    call->end_ = end;
    return call;
  }

  mutable std::mutex mutex_;
  bool is_closed_ = false;
  std::list<std::shared_ptr<PendingCall>> calls_;
};

}  // namespace kerf
