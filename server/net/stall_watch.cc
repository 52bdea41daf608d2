#include "server/net/stall_watch.h"

#include <utility>

namespace kerf {

std::optional<StallWatch::News> StallWatch::Look(WaitPlace place, std::uint64_t progress,
                                                 TimePoint now, std::chrono::nanoseconds patience) {
  if (place != place_ || progress != progress_) {
    const std::optional<News> news = End(now);
    place_ = place;
    progress_ = progress;
    since_ = now;
    return news;
  }
  if (place_ == WaitPlace::kNone || is_told_ || now - since_ < patience) return std::nullopt;
  is_told_ = true;
  is_repeated_ = std::exchange(was_told_[static_cast<std::size_t>(place_)], true);
  return News{
      .has_begun = true, .place = place_, .waited = now - since_, .is_repeated = is_repeated_};
}

std::optional<StallWatch::News> StallWatch::End(TimePoint now) {
  if (!std::exchange(is_told_, false)) return std::nullopt;
  return News{
      .has_begun = false, .place = place_, .waited = now - since_, .is_repeated = is_repeated_};
}

}  // namespace kerf
