// How long something has been waited for, as far as somebody looked.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace kerf::cuda {

// While this process was stopped, or had other work, nobody could see that a batch was back: that
// is no fault of the device. So whoever waits calls Look, looks, and only then holds the sum
// against a limit. Not thread-safe.
class LookClock {
 public:
  using Clock = std::chrono::steady_clock;

  // What counts at most of the time between two looks.
  static constexpr std::chrono::milliseconds kMaxLook{100};

  // What counts of the time since the call before; of the first one nothing does.
  Clock::duration Look(Clock::time_point now = Clock::now()) {
    const auto step = std::min<Clock::duration>(now - last_look_.value_or(now), kMaxLook);
    last_look_ = now;
    return step;
  }

 private:
  std::optional<Clock::time_point> last_look_;
};

}  // namespace kerf::cuda
