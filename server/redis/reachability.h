// Whether something that is looked at again and again counts as reachable: not each failure is a
// loss, and what is lost again and again has to be well for longer each time.
#pragma once

#include <algorithm>
#include <chrono>

namespace kerf::redis {

struct ReachabilityTimes {
  // Of failures without a success, from the begin of the first look that failed.
  std::chrono::milliseconds lost_after{5'000};
  // Of successes without a failure. Twice as long for each loss that comes soon after a return.
  std::chrono::milliseconds back_after{2'000};
  std::chrono::milliseconds max_back_after{60'000};
  // A loss later than this after the return is no longer soon.
  std::chrono::milliseconds calm_after{300'000};
};

// Time is given by the caller, and never goes back. Not thread-safe.
class Reachability {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Reachability(const ReachabilityTimes& times)
      : times_(times), back_after_(times.back_after) {}

  bool is_lost() const { return is_lost_; }

  // A look has ended at `now`. One look alone never is a loss.
  void Record(bool is_well, TimePoint began, TimePoint now) {
    if (is_well != was_well_) {
      was_well_ = is_well;
      since_ = began;
      look_count_ = 0;
    }
    ++look_count_;
    const auto time = now - since_;
    if (!is_well && !is_lost_ && look_count_ > 1 && time >= times_.lost_after) {
      const bool is_soon = has_returned_ && now - returned_at_ < times_.calm_after;
      back_after_ = is_soon ? std::min(2 * back_after_, times_.max_back_after) : times_.back_after;
      is_lost_ = true;
    } else if (is_well && is_lost_ && time >= back_after_) {
      is_lost_ = false;
      has_returned_ = true;
      returned_at_ = now;
    }
  }

 private:
  const ReachabilityTimes times_;
  std::chrono::milliseconds back_after_;
  bool was_well_ = true;
  bool is_lost_ = false;
  bool has_returned_ = false;
  // Of looks that ended alike.
  int look_count_ = 0;
  TimePoint since_;
  TimePoint returned_at_;
};

}  // namespace kerf::redis
