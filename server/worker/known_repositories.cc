#include "server/worker/known_repositories.h"

#include <string>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "kernels/fingerprint/digest.h"
#include "server/errors/errors.h"

namespace kerf {
namespace {

constexpr DigestAlgorithm kDigestAlgorithms[] = {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256,
                                                 DigestAlgorithm::kXxh3_128};

absl::Status Mismatch(const RepositoryId& repository, DigestAlgorithm held) {
  const std::string name(DigestAlgorithmName(held));
  return MakeError(
      Reason::kDigestAlgorithmMismatch,
      Cat("repository '", repository.name, "' has ", name, ", and is asked for with ",
          DigestAlgorithmName(repository.digest_algorithm),
          ": it has one digest algorithm for all its life. Take another name; or, if the other one "
          "was a mistake, have it dropped: `kerf repo drop ",
          repository.name, " --digest ", name, "`"),
      {{"digest_algorithm", name}});
}

}  // namespace

Task<absl::Status> KnownRepositories::Check(const RepositoryId& repository) {
  if (IsRemembered(repository)) return absl::OkStatus();
  return options_.only_created ? AskIfCreated(repository) : CheckAlgorithm(repository);
}

// Of its own copy: the caller's may be gone when the index answers.
Task<absl::Status> KnownRepositories::AskIfCreated(RepositoryId repository) {
  KERF_CO_ASSIGN_OR_RETURN(const bool is_created, co_await index_.IsCreated(repository));
  if (!is_created) co_return NotYours();
  Remember(repository);
  co_return absl::OkStatus();
}

Task<absl::Status> KnownRepositories::CheckAlgorithm(RepositoryId repository) {
  KERF_CO_ASSIGN_OR_RETURN(const bool is_there, co_await index_.IsThere(repository));
  if (is_there) {
    // Where it has to be created more than that has to be known.
    if (!options_.only_created) Remember(repository);
    co_return absl::OkStatus();
  }
  RepositoryId other = repository;
  for (const DigestAlgorithm algorithm : kDigestAlgorithms) {
    if (algorithm == repository.digest_algorithm) continue;
    other.digest_algorithm = algorithm;
    KERF_CO_ASSIGN_OR_RETURN(const bool is_other_there, co_await index_.IsThere(other));
    if (is_other_there) co_return Mismatch(repository, algorithm);
  }
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
