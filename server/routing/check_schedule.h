// When a worker is asked for its health, and what the answers make of it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/random.h"

namespace kerf::routing {

enum class CheckResult : std::uint8_t {
  kServing,
  // It answers, and says that it has lost its index: it is alive, and others are better.
  kWithoutIndex,
  // It answers that it does not serve: it drains.
  kNotServing,
  // There is nobody at its address, or the connection broke.
  kUnreachable,
  // It did not answer in time.
  kSilent,
};

struct CheckTimes {
  // Between checks of a worker that is well.
  std::chrono::milliseconds interval{1000};
  // At most, between checks of one that is not: from `interval` on each wait is twice the last.
  std::chrono::milliseconds max_interval{5000};
};

// A worker with more work than processors may be late: one that is silent is given up only after
// so many checks, for those that take over its work would be late next.
inline constexpr int kSilentChecksUntilLost = 3;
// A connection may break for reasons of its own: whoever was alive is given up only after so many
// checks that did not reach it, the second of them soon, on another connection.
inline constexpr int kUnreachableChecksUntilLost = 2;
// Longer than gRPC waits before it connects again.
inline constexpr std::chrono::milliseconds kUnreachablePause{250};
// Between two checks, whatever the reason to ask again.
inline constexpr std::chrono::milliseconds kMinCheckPause{100};

// Waits are shortened by up to a half, at random, so that fronts do not ask in step. Not
// thread-safe.
class CheckSchedule {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The first check is due at once.
  CheckSchedule(const CheckTimes& times, TimePoint now)
      : times_(times), due_(now), earliest_(now) {}

  bool is_live() const { return is_live_; }
  TimePoint due() const { return due_; }
  // There is reason to doubt what the last check said.
  void Doubt(TimePoint now) { due_ = std::min(due_, std::max(now, earliest_)); }
  void Record(CheckResult result, TimePoint now, Random& random);

 private:
  const CheckTimes times_;
  TimePoint due_;
  TimePoint earliest_;
  bool is_live_ = false;
  // In a row.
  int failure_count_ = 0;
  // Since it was last well.
  int silent_count_ = 0;
  int unreachable_count_ = 0;
};

}  // namespace kerf::routing
