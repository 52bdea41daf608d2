// An index whose repositories hold no more entries than they may.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "server/index/forwarding_index.h"
#include "server/net/clock.h"
#include "server/quota/quotas.h"

namespace kerf {

struct QuotaIndexOptions {
  // For so long it is believed how many entries a repository has, as others may add to it.
  std::chrono::milliseconds life{10'000};
  // And of a full one, that it is full.
  std::chrono::milliseconds full_life{1'000};
  // Repositories that are remembered at once.
  std::size_t capacity = 4096;
};

// Refuses commits of what is not there yet to a repository that is full (Quotas::MaxEntriesOf) with
// QUOTA_EXCEEDED, without a delay to try again after: somebody has to make room. What is there may
// always be committed again, and moved, as collections do. Of several commits at once, and of those
// that reach a shared index through other processes within `life`, each may find room for itself.
// Passes on all else.
class QuotaIndex final : public ForwardingIndex {
 public:
  // All outlive it and its calls.
  QuotaIndex(Index* index, Quotas* quotas, const Clock* clock,
             const QuotaIndexOptions& options = QuotaIndexOptions())
      : ForwardingIndex(index), quotas_(*quotas), clock_(*clock), options_(options) {}

  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override;

 private:
  struct Known {
    // As of `at`, and what was let through since.
    std::uint64_t entry_count = 0;
    TimePoint at;
  };
  struct Commitment;

  Task<absl::Status> CommitWithin(Commitment commitment);
  // How many of them a repository does not have.
  Task<absl::StatusOr<std::uint64_t>> CountNew(const RepositoryId& repository,
                                               std::uint64_t session_epoch,
                                               std::span<const IndexEntry> entries);
  // Counts that many more if there was room for them, as far as is known.
  bool TryFill(const RepositoryId& repository, std::uint64_t count, std::uint64_t limit);
  // Whether it was found to be full just now.
  bool IsKnownToBeFull(const RepositoryId& repository, std::uint64_t limit);
  void Remember(const RepositoryId& repository, std::uint64_t entry_count);

  Quotas& quotas_;
  const Clock& clock_;
  const QuotaIndexOptions options_;
  std::mutex mutex_;
  std::map<RepositoryId, Known, RepositoryOrder> known_;
};

}  // namespace kerf
