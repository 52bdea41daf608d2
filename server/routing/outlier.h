// Whether a worker whose health is well, but whose calls fail one after the other, is done without
// for a while.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/random.h"

namespace kerf::routing {

// Calls in a row that fail by the worker's fault, and none between that went well.
inline constexpr int kFailuresUntilEjected = 3;

struct EjectionTimes {
  // Of the first time; each that follows soon lasts twice as long.
  std::chrono::milliseconds first{10'000};
  std::chrono::milliseconds max{300'000};
  // From the return on: whoever is well for so long begins anew.
  std::chrono::milliseconds calm{300'000};
};

// Not thread-safe. Time is given by the caller.
class Outlier {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Outlier(const EjectionTimes& times) : times_(times) {}

  bool is_ejected() const { return is_ejected_; }
  // When it returns; of one that is ejected.
  TimePoint until() const { return until_; }

  // So many calls have failed in a row until now. True if it is ejected for that.
  bool Look(int failure_count, TimePoint now, Random& random) {
    if (is_ejected_) {
      if (now < until_) return false;
      is_ejected_ = false;
      returned_at_ = now;
      return false;
    }
    if (failure_count < kFailuresUntilEjected) return false;
    const bool is_soon = count_ > 0 && now - returned_at_ < times_.calm;
    count_ = is_soon ? count_ + 1 : 1;
    std::chrono::milliseconds time = times_.first;
    for (int more = 1; more < count_ && time < times_.max; ++more) time *= 2;
    time = std::min(time, times_.max);
    // Fronts do not try again in step.
    time -=
        std::chrono::milliseconds(random.Between(0, static_cast<std::uint64_t>(time.count()) / 4));
    is_ejected_ = true;
    until_ = now + time;
    return true;
  }

 private:
  const EjectionTimes times_;
  bool is_ejected_ = false;
  // In a row, each soon after the one before.
  int count_ = 0;
  TimePoint until_;
  TimePoint returned_at_;
};

}  // namespace kerf::routing
