// An index whose calls are answered in time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "server/index/index.h"
#include "server/net/clock.h"
#include "server/worker/pending_calls.h"

namespace kerf {

// Answers a call for the index that has not done so within the timeout: INDEX_UNAVAILABLE
// (server/errors), and nothing is known about what was written. It has no clock's thread: somebody
// calls CheckTime now and again. What the index says later is dropped. An index that works in the
// caller's thread keeps that for as long as it likes.
//
// The index reads and writes copies, which it keeps for as long as it likes: callers have what is
// theirs back with the answer, whoever has given it. One that answers at once has the callers'
// digests and entries themselves, which are thousands a call.
class DeadlineIndex final : public Index {
 public:
  // Both outlive it, and the index also all calls that it has.
  DeadlineIndex(Index* index, std::chrono::milliseconds timeout, const Clock* clock)
      : index_(*index), timeout_(timeout), clock_(*clock) {}
  DeadlineIndex(const DeadlineIndex&) = delete;
  DeadlineIndex& operator=(const DeadlineIndex&) = delete;
  // Closes it.
  ~DeadlineIndex() override { Close(); }

  // Answers the calls that take too long, in this thread; how many they were.
  std::size_t CheckTime(TimePoint now);
  // Ends all calls, and those that come later and are not answered at once, with Cancelled, before
  // the return. The index may answer later still, also when this is gone.
  void Close();
  // Calls that are not answered yet.
  std::size_t pending_count() const { return pending_->count(); }

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override;
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override;
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override;
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override;
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override;
  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override;
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override;
  Task<absl::StatusOr<bool>> Create(const RepositoryId& repository) override;
  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& repository) override;
  Task<absl::StatusOr<bool>> IsThere(const RepositoryId& repository) override;
  Task<absl::StatusOr<std::vector<ListedRepository>>> List(const std::optional<RepositoryId>& after,
                                                           std::size_t limit) override;
  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                        const std::optional<Digest>& after,
                                        std::size_t limit) override;
  Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                              const std::optional<Digest>& after,
                                              std::size_t limit) override;
  std::string_view backend_name() const override { return index_.backend_name(); }
  bool is_remote() const override { return index_.is_remote(); }
  bool answers_at_once() const override { return index_.answers_at_once(); }

 private:
  template <typename Answer>
  struct Call;

  // The answer to `asked`, which reads and writes what `call` owns.
  template <typename Answer>
  Task<Answer> Await(std::shared_ptr<Call<Answer>> call, Task<Answer> asked);
  template <typename Answer>
  Task<Answer> AwaitLate(std::shared_ptr<Call<Answer>> call, Task<Answer> asked);
  absl::Status StatusOf(PendingCall::End end) const;

  Index& index_;
  const std::chrono::milliseconds timeout_;
  const Clock& clock_;
  // Shared with the calls that the index has: it may answer them when this is gone.
  const std::shared_ptr<PendingCalls> pending_ = std::make_shared<PendingCalls>();
};

}  // namespace kerf
