// What has been used of a rate lately.
#pragma once

#include <algorithm>
#include <chrono>

#include "server/net/clock.h"

namespace kerf {

// Rises with what is used and falls with time, to 0: a leaky bucket. Not thread-safe.
class LeakyLevel {
 public:
  double At(double per_second, TimePoint now) const {
    const std::chrono::duration<double> passed = now - at_;
    return std::max(0.0, level_ - passed.count() * per_second);
  }
  // `amount` may be less than 0: what was counted and not used.
  void Add(double per_second, double amount, TimePoint now) {
    level_ = std::max(0.0, At(per_second, now) + amount);
    at_ = now;
  }

 private:
  double level_ = 0;
  TimePoint at_;
};

}  // namespace kerf
