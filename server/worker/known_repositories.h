// Which repositories may be used where they have to be created first (kerfd --repositories
// created).
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
  // For so long it is believed that one is created; that one is not, never.
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

  // OK for one that was created. NOT_YOURS for any other, in words that do not say whether there is
  // one of that name; else what the index has against the question.
  Task<absl::Status> Check(const RepositoryId& repository);

  // It was created or dropped through this process: the next Check asks.
  void Forget(const RepositoryId& repository);

 private:
  Task<absl::Status> Ask(RepositoryId repository);
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
