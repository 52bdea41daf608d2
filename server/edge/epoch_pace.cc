#include "server/edge/epoch_pace.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/strings.h"
#include "server/errors/errors.h"

namespace kerf {

double EpochPace::At(const Risen& risen, TimePoint now) const {
  const std::chrono::duration<double> passed = now - risen.at;
  const auto per_second = static_cast<double>(options_.epochs_per_second);
  return std::max(0.0, risen.epochs - passed.count() * per_second);
}

absl::Status EpochPace::Admit(const RepositoryId& repository) {
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  const auto found = risen_.find(repository);
  if (found == risen_.end()) return absl::OkStatus();
  const double over = At(found->second, now) - static_cast<double>(options_.reserve);
  // A step may pass the reserve, which holds up the next one.
  if (over < 0) return absl::OkStatus();
  const double seconds = std::ceil((over + 1) / static_cast<double>(options_.epochs_per_second));
  return MakeError(
      Reason::kTooManyCalls,
      Cat("the epoch of this repository has risen faster than collections raise it; it is raised "
          "again in ",
          static_cast<std::uint64_t>(seconds),
          " s, or when an operator has set it right (`kerf repo reset-epoch`)"),
      {{"limit", Cat(options_.epochs_per_second)}});
}

void EpochPace::Count(const RepositoryId& repository, std::uint64_t from, std::uint64_t to) {
  if (from == 0 || to <= from) return;
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  if (risen_.size() >= options_.capacity && !risen_.contains(repository)) MakeRoom(now);
  Risen& risen = risen_[repository];
  risen = {At(risen, now) + static_cast<double>(to - from), now};
}

// Those that have fallen back to nothing go; else the one that has risen least.
void EpochPace::MakeRoom(TimePoint now) {
  std::erase_if(risen_, [&](const auto& known) { return At(known.second, now) == 0; });
  if (risen_.size() < options_.capacity) return;
  risen_.erase(std::min_element(risen_.begin(), risen_.end(), [&](const auto& a, const auto& b) {
    return At(a.second, now) < At(b.second, now);
  }));
}

void EpochPace::Forgive(const RepositoryId& repository) {
  const std::lock_guard lock(mutex_);
  risen_.erase(repository);
}

}  // namespace kerf
