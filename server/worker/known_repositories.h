// Which repositories may be used: where they have to be created first (kerfd --repositories
// created), those that were; else any, with the one digest algorithm that it was begun with.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>

#include "absl/status/status.h"
#include "base/task.h"
#include "server/index/index.h"
#include "server/net/clock.h"

namespace kerf {

struct KnownRepositoriesOptions {
  // Only those that were created.
  bool only_created = true;
  // For so long it is believed that one is there; that one is not, never.
  std::chrono::milliseconds life{10'000};
  // That are remembered at once.
  std::size_t capacity = 4096;
};

// Asked once a stream or call, and never a chunk. Thread-safe.
class KnownRepositories {
 public:
  // `index` and `clock` outlive it and its calls.
  KnownRepositories(Index* index, const Clock* clock,
                    const KnownRepositoriesOptions& options = KnownRepositoriesOptions())
      : index_(*index), clock_(*clock), options_(options) {}

  // For a call that may begin the repository. Where it has to be created, NOT_YOURS for one that
  // was not, in words that do not say whether there is one of that name; elsewhere as
  // CheckAlgorithm. Else what the index has against the question.
  Task<absl::Status> Check(const RepositoryId& repository);
  // For one that only looks, or forgets: another algorithm's index is an empty one to it.
  Task<absl::Status> CheckToLook(const RepositoryId& repository) {
    if (!options_.only_created) return absl::OkStatus();
    return Check(repository);
  }
  // DIGEST_ALGORITHM_MISMATCH for one that is not there, while there is one of that name with
  // another digest algorithm: a second index would say NEW of all that the first one has, and a
  // collection would tell only one of them. Who has begun both before there was this check keeps
  // them, and so do two who begin at the same moment.
  Task<absl::Status> CheckAlgorithm(RepositoryId repository);

  // It was created or dropped through this process: the next Check asks.
  void Forget(const RepositoryId& repository);

 private:
  Task<absl::Status> AskIfCreated(RepositoryId repository);
  bool IsRemembered(const RepositoryId& repository);
  void Remember(const RepositoryId& repository);

  Index& index_;
  const Clock& clock_;
  const KnownRepositoriesOptions options_;
  std::mutex mutex_;
  // When what is known of each ends.
  std::map<RepositoryId, TimePoint, RepositoryOrder> ends_;
};

}  // namespace kerf
