// Whether looking at files that may be in memory is worth it.
#pragma once

#include <algorithm>

namespace kerf::agent {

// Of files that come one after the other: as long as all that were looked at were in memory, more
// and more of them are passed over; one that was not ends that. Not thread-safe.
class Warmth {
 public:
  // Passed over at once, at most: so many files may be cold without help before it is noticed.
  static constexpr unsigned kMaxPassed = 512;

  // Whether the next file is to be looked at.
  bool Wants() {
    if (passing_ == 0) return true;
    --passing_;
    return false;
  }

  // What came of one that was looked at.
  void Saw(bool was_cold) {
    if (was_cold) {
      warm_in_a_row_ = passed_ = passing_ = 0;
      return;
    }
    if (++warm_in_a_row_ < kSure) return;
    passed_ = std::clamp(2 * passed_, kMinPassed, kMaxPassed);
    passing_ = passed_;
    warm_in_a_row_ = kSure - kProbes;
  }

 private:
  static constexpr unsigned kSure = 64;
  static constexpr unsigned kProbes = 8;
  static constexpr unsigned kMinPassed = 32;

  unsigned warm_in_a_row_ = 0;
  unsigned passed_ = 0;
  unsigned passing_ = 0;
};

}  // namespace kerf::agent
