// Calls of a device by one thread, looked at by another one: a driver may hold a call for ever.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/check.h"

namespace kerf::cuda {

// One thread makes calls, one after another; one other looks at them.
class CallWatch {
 public:
  // Around each call. False: the call was given up, and all that the thread has had is another
  // one's now: it ends, and touches nothing but what it has on its own stack.
  void Begin() { state_.store(++last_, std::memory_order_release); }
  [[nodiscard]] bool End() {
    std::uint64_t call = last_;
    return state_.compare_exchange_strong(call, kIdle, std::memory_order_acq_rel);
  }

  // The call that is under way, by its number; kIdle: none.
  static constexpr std::uint64_t kIdle = 0;
  std::uint64_t current() const { return state_.load(std::memory_order_acquire); }
  // Takes all that the thread has had, as it was when that call began. False: the call has just
  // returned.
  [[nodiscard]] bool GiveUp(std::uint64_t call) {
    KERF_CHECK(call != kIdle && call != kGivenUp);
    return state_.compare_exchange_strong(call, kGivenUp, std::memory_order_acq_rel);
  }
  bool is_given_up() const { return current() == kGivenUp; }

 private:
  static constexpr std::uint64_t kGivenUp = ~std::uint64_t{0};

  std::atomic<std::uint64_t> state_{kIdle};
  // Of the thread that calls.
  std::uint64_t last_ = kIdle;
};

}  // namespace kerf::cuda
