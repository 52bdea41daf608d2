// How fast the epochs of repositories may be raised by their agents (docs/adr/0020, "Bounds on
// epochs").
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "server/index/index.h"
#include "server/index/rules.h"
#include "server/net/clock.h"
#include "server/quota/rates.h"

namespace kerf {

struct EpochPaceOptions {
  // On average, of one repository.
  std::uint64_t epochs_per_second = 64;
  // What it may rise by at once, behind a while without: then one step of an index that is an old
  // copy of itself is let through.
  std::uint64_t reserve = index_rules::kMaxEpochStep;
  // Repositories that are remembered because they have risen lately.
  std::size_t capacity = 16'384;
};

// Of this process. Thread-safe.
class EpochPace {
 public:
  // `clock` outlives it.
  explicit EpochPace(const Clock* clock, const EpochPaceOptions& options = EpochPaceOptions())
      : clock_(*clock), options_(options), risen_(options.capacity) {}

  // TOO_MANY_CALLS while it has risen by more than it may.
  absl::Status Admit(const RepositoryId& repository);
  // It was raised. From 0, where a new index is, and one that was lost, that counts as nothing.
  void Count(const RepositoryId& repository, std::uint64_t from, std::uint64_t to);
  // An operator has set its epoch: it may rise as if it had not.
  void Forgive(const RepositoryId& repository) { risen_.Forget(repository); }

 private:
  double per_second() const { return static_cast<double>(options_.epochs_per_second); }

  const Clock& clock_;
  const EpochPaceOptions options_;
  // Risen by, less what the time since then is good for.
  Rates<RepositoryId, RepositoryOrder> risen_;
};

}  // namespace kerf
