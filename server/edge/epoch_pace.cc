#include "server/edge/epoch_pace.h"

#include <cmath>

#include "base/strings.h"
#include "server/errors/errors.h"

namespace kerf {

absl::Status EpochPace::Admit(const RepositoryId& repository) {
  const double over =
      risen_.At(repository, per_second(), clock_()) - static_cast<double>(options_.reserve);
  // A step may pass the reserve, which holds up the next one.
  if (over < 0) return absl::OkStatus();
  const double seconds = std::ceil((over + 1) / per_second());
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
  risen_.Add(repository, per_second(), static_cast<double>(to - from), clock_());
}

}  // namespace kerf
