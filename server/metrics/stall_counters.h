// How many streams wait, and have waited, for one thing for long.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "server/metrics/counters.h"
#include "server/net/stall_watch.h"

namespace kerf::metrics {

// Of all streams of a process, by place. Thread-safe.
class StallCounters {
 public:
  void Count(const StallWatch::News& news) {
    (news.has_begun ? begun_ : ended_)[static_cast<std::size_t>(news.place)].Add();
  }
  std::uint64_t begun_count(WaitPlace place) const {
    return begun_[static_cast<std::size_t>(place)].value();
  }
  std::uint64_t stalled_count(WaitPlace place) const {
    // Nobody orders the two counters: an end may be seen before its beginning.
    const std::uint64_t ended_count = ended_[static_cast<std::size_t>(place)].value();
    const std::uint64_t begun = begun_count(place);
    return begun - std::min(begun, ended_count);
  }
  // At any place.
  std::uint64_t stalled_count() const {
    std::uint64_t count = 0;
    for (std::size_t index = 0; index < kWaitPlaceNames.size(); ++index) {
      count += stalled_count(static_cast<WaitPlace>(index));
    }
    return count;
  }

 private:
  std::array<Counter, kWaitPlaceNames.size()> begun_;
  std::array<Counter, kWaitPlaceNames.size()> ended_;
};

}  // namespace kerf::metrics
