// An index whose repositories hold no more entries than they may.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/limits.h"
#include "server/index/forwarding_index.h"
#include "server/net/clock.h"
#include "server/quota/quotas.h"

namespace kerf {

struct QuotaIndexOptions {
  // For so long it is believed how many entries a repository has, as others may add to it.
  std::chrono::milliseconds life{10'000};
  // Where others add to the index, too, this part of the room that was there is let through until
  // it is counted again, `margin` at least.
  std::uint64_t shared_part = 16;
  // With less room than that, what is committed is looked up first: only what is new takes room.
  std::uint64_t margin = limits::kMaxIndexRequestEntries;
  // Repositories that are remembered at once.
  std::size_t capacity = 4096;
};

// Of a commit to a repository that is full (Quotas::MaxEntriesOf) writes what is there already, and
// answers QUOTA_EXCEEDED for what is not, which is left out: without a delay to try again after,
// for somebody has to make room. So what is known can be committed again, and moved, as collections
// do. Where N processes commit to one index, a repository may come to hold more: as many times N -
// 1 as each lets through until it counts again, and what is under way then. Passes on all else.
class QuotaIndex final : public ForwardingIndex {
 public:
  // All outlive it and its calls.
  QuotaIndex(Index* index, Quotas* quotas, const Clock* clock,
             const QuotaIndexOptions& options = QuotaIndexOptions())
      : ForwardingIndex(index), quotas_(*quotas), clock_(*clock), options_(options) {}

  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override;
  // What is removed makes room at once.
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override;
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override;
  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                        const std::optional<Digest>& after,
                                        std::size_t limit) override;
  bool answers_at_once() const override { return IndexAnswersAtOnce(); }

 private:
  struct Known {
    // As of `at`.
    std::uint64_t counted = 0;
    TimePoint at;
    // Let through since: of these is known that they are new, ...
    std::uint64_t new_count = 0;
    // ... and of these is not.
    std::uint64_t passed_count = 0;

    std::uint64_t used_count() const { return new_count + passed_count; }
  };
  struct Commitment;

  Task<absl::Status> CommitWithin(Commitment commitment);
  // Those that the repository has.
  Task<absl::StatusOr<std::vector<IndexEntry>>> KnownOf(const RepositoryId& repository,
                                                        std::uint64_t session_epoch,
                                                        std::span<const IndexEntry> entries);
  template <typename Result>
  Task<absl::StatusOr<Result>> ForgetKnownAfter(RepositoryId repository,
                                                Task<absl::StatusOr<Result>> call);

  // Whether there is room for so many, new or not.
  bool TryPass(const RepositoryId& repository, std::uint64_t count, std::uint64_t limit);
  // The same of new ones.
  bool TryFill(const RepositoryId& repository, std::uint64_t count, std::uint64_t limit);
  // Whether it has to be counted before TryFill.
  bool IsUncertain(const RepositoryId& repository, std::uint64_t count, std::uint64_t limit);
  void Remember(const RepositoryId& repository, std::uint64_t entry_count);
  // How much may be let through before it is counted again.
  std::uint64_t AllowanceOf(const Known& known, std::uint64_t limit) const;

  Quotas& quotas_;
  const Clock& clock_;
  const QuotaIndexOptions options_;
  std::mutex mutex_;
  std::map<RepositoryId, Known, RepositoryOrder> known_;
};

}  // namespace kerf
