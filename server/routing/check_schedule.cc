#include "server/routing/check_schedule.h"

namespace kerf::routing {
namespace {

std::chrono::milliseconds Shortened(std::chrono::milliseconds wait, Random& random) {
  const auto half = static_cast<std::uint64_t>(wait.count() / 2);
  return wait - std::chrono::milliseconds(random.Between(0, half));
}

}  // namespace

void CheckSchedule::Record(CheckResult result, TimePoint now, Random& random) {
  earliest_ = now + kMinCheckPause;
  if (result == CheckResult::kSilent) ++silent_count_;
  if (result == CheckResult::kUnreachable) ++unreachable_count_;
  const bool is_late =
      is_live_ && result == CheckResult::kSilent && silent_count_ < kSilentChecksUntilLost;
  const bool is_doubtful = is_live_ && result == CheckResult::kUnreachable &&
                           unreachable_count_ < kUnreachableChecksUntilLost;
  if (is_doubtful) {
    earliest_ = now + kUnreachablePause;
    due_ = earliest_;
    return;
  }
  const bool answers = result == CheckResult::kServing || result == CheckResult::kWithoutIndex;
  is_live_ = answers || is_late;
  if (answers) silent_count_ = unreachable_count_ = 0;
  if (is_live_) {
    failure_count_ = 0;
    due_ = now + Shortened(times_.interval, random);
    return;
  }
  std::chrono::milliseconds wait = times_.interval;
  for (int count = 0; count < failure_count_ && wait < times_.max_interval; ++count) wait *= 2;
  ++failure_count_;
  due_ = now + Shortened(std::min(wait, times_.max_interval), random);
}

}  // namespace kerf::routing
