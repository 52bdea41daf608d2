#include "server/worker/known_repositories.h"

#include <utility>

#include "base/status.h"
#include "server/errors/errors.h"

namespace kerf {

Task<absl::Status> KnownRepositories::Check(const RepositoryId& repository) {
  if (IsRemembered(repository)) return absl::OkStatus();
  return Ask(repository);
}

// Of its own copy: the caller's may be gone when the index answers.
Task<absl::Status> KnownRepositories::Ask(RepositoryId repository) {
  KERF_CO_ASSIGN_OR_RETURN(const bool is_created, co_await index_.IsCreated(repository));
  if (!is_created) co_return NotYours();
  Remember(repository);
  co_return absl::OkStatus();
}

bool KnownRepositories::IsRemembered(const RepositoryId& repository) {
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  const auto found = ends_.find(repository);
  return found != ends_.end() && now < found->second;
}

void KnownRepositories::Remember(const RepositoryId& repository) {
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  if (ends_.size() >= options_.capacity) {
    std::erase_if(ends_, [now](const auto& known) { return known.second <= now; });
  }
  // What goes is asked for once more.
  if (ends_.size() >= options_.capacity) ends_.clear();
  ends_[repository] = now + options_.life;
}

void KnownRepositories::Forget(const RepositoryId& repository) {
  const std::lock_guard lock(mutex_);
  ends_.erase(repository);
}

}  // namespace kerf
