#include "server/worker/deadline_index.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "base/task.h"
#include "server/errors/errors.h"

namespace kerf {

// What the index reads and writes, and its answer. It may have that for longer than the caller
// waits.
template <typename Answer>
struct DeadlineIndex::Call : PendingCall {
  explicit Call(const RepositoryId& repository_asked) : repository(repository_asked) {}

  // The answer goes to the caller, who waits for it.
  Answer Hand(Answer given) {
    std::move(results.begin(), results.end(), wanted_results.begin());
    return given;
  }

  const RepositoryId repository;
  std::vector<Digest> digests;
  std::vector<LookupResult> results;
  std::vector<IndexEntry> entries;
  std::optional<Digest> after;
  std::optional<RepositoryId> after_repository;
  // The caller's, until the call has ended.
  std::span<LookupResult> wanted_results;
  // Written by the index before the call ends with it.
  std::optional<Answer> answer;
};

namespace {

// The question on its way, for as long as the index takes.
template <typename Answer, typename Call>
Detached Carry(std::shared_ptr<PendingCalls> pending, std::shared_ptr<Call> call,
               Task<Answer> asked) {
  call->answer.emplace(co_await asked);
  if (pending->EndAnswered(*call)) call->GoOn();
}

}  // namespace

std::size_t DeadlineIndex::CheckTime(TimePoint now) {
  const std::vector<std::shared_ptr<PendingCall>> late = pending_->EndLate(now);
  for (const auto& call : late) call->GoOn();
  return late.size();
}

void DeadlineIndex::Close() {
  for (const auto& call : pending_->Close()) call->GoOn();
}

absl::Status DeadlineIndex::StatusOf(PendingCall::End end) const {
  if (end == PendingCall::End::kClosed) return absl::CancelledError("the index is closed");
  return MakeError(Reason::kIndexUnavailable,
                   Cat("the index has not answered for ", timeout_.count(), " ms"));
}

template <typename Answer>
Task<Answer> DeadlineIndex::Await(std::shared_ptr<Call<Answer>> call, Task<Answer> asked) {
  if (asked.await_ready()) return call->Hand(asked.TakeValue());
  return AwaitLate(std::move(call), std::move(asked));
}

template <typename Answer>
Task<Answer> DeadlineIndex::AwaitLate(std::shared_ptr<Call<Answer>> call, Task<Answer> asked) {
  if (!pending_->Begin(call, clock_() + timeout_)) co_return StatusOf(PendingCall::End::kClosed);
  Carry(pending_, call, std::move(asked));
  const PendingCall::Ended ended(call.get());
  const PendingCall::End end = co_await ended;
  if (end != PendingCall::End::kAnswered) co_return StatusOf(end);
  co_return call->Hand(*std::move(call->answer));
}

Task<absl::Status> DeadlineIndex::Lookup(const RepositoryId& repository,
                                         std::uint64_t session_epoch,
                                         std::span<const Digest> digests,
                                         std::span<LookupResult> results) {
  if (index_.answers_at_once()) {
    return index_.Lookup(repository, session_epoch, digests, results);
  }
  auto call = std::make_shared<Call<absl::Status>>(repository);
  call->digests.assign(digests.begin(), digests.end());
  call->results.resize(results.size());
  call->wanted_results = results;
  return Await(call, index_.Lookup(call->repository, session_epoch, call->digests, call->results));
}

Task<absl::Status> DeadlineIndex::Commit(const RepositoryId& repository,
                                         std::uint64_t session_epoch,
                                         std::span<const IndexEntry> entries, bool replace) {
  if (index_.answers_at_once()) return index_.Commit(repository, session_epoch, entries, replace);
  auto call = std::make_shared<Call<absl::Status>>(repository);
  call->entries.assign(entries.begin(), entries.end());
  return Await(call, index_.Commit(call->repository, session_epoch, call->entries, replace));
}

Task<absl::StatusOr<ForgetResult>> DeadlineIndex::Forget(const RepositoryId& repository,
                                                         std::span<const IndexEntry> entries) {
  if (index_.answers_at_once()) return index_.Forget(repository, entries);
  auto call = std::make_shared<Call<absl::StatusOr<ForgetResult>>>(repository);
  call->entries.assign(entries.begin(), entries.end());
  return Await(call, index_.Forget(call->repository, call->entries));
}

Task<absl::StatusOr<ForgetOlderResult>> DeadlineIndex::ForgetOlder(
    const RepositoryId& repository, std::uint64_t epoch, const std::optional<Digest>& after,
    std::size_t limit) {
  auto call = std::make_shared<Call<absl::StatusOr<ForgetOlderResult>>>(repository);
  call->after = after;
  return Await(call, index_.ForgetOlder(call->repository, epoch, call->after, limit));
}

Task<absl::StatusOr<std::uint64_t>> DeadlineIndex::AdvanceEpoch(const RepositoryId& repository,
                                                                std::uint64_t epoch,
                                                                std::uint64_t min_before) {
  auto call = std::make_shared<Call<absl::StatusOr<std::uint64_t>>>(repository);
  return Await(call, index_.AdvanceEpoch(call->repository, epoch, min_before));
}

Task<absl::StatusOr<std::vector<IndexEntry>>> DeadlineIndex::Scan(
    const RepositoryId& repository, const std::optional<Digest>& after, std::size_t limit) {
  auto call = std::make_shared<Call<absl::StatusOr<std::vector<IndexEntry>>>>(repository);
  call->after = after;
  return Await(call, index_.Scan(call->repository, call->after, limit));
}

Task<absl::StatusOr<IndexStats>> DeadlineIndex::Stats(const RepositoryId& repository) {
  auto call = std::make_shared<Call<absl::StatusOr<IndexStats>>>(repository);
  return Await(call, index_.Stats(call->repository));
}

Task<absl::StatusOr<bool>> DeadlineIndex::Create(const RepositoryId& repository) {
  auto call = std::make_shared<Call<absl::StatusOr<bool>>>(repository);
  return Await(call, index_.Create(call->repository));
}

Task<absl::StatusOr<bool>> DeadlineIndex::IsCreated(const RepositoryId& repository) {
  auto call = std::make_shared<Call<absl::StatusOr<bool>>>(repository);
  return Await(call, index_.IsCreated(call->repository));
}

Task<absl::StatusOr<bool>> DeadlineIndex::IsThere(const RepositoryId& repository) {
  auto call = std::make_shared<Call<absl::StatusOr<bool>>>(repository);
  return Await(call, index_.IsThere(call->repository));
}

Task<absl::StatusOr<std::vector<ListedRepository>>> DeadlineIndex::List(
    const std::optional<RepositoryId>& after, std::size_t limit) {
  auto call = std::make_shared<Call<absl::StatusOr<std::vector<ListedRepository>>>>(RepositoryId());
  call->after_repository = after;
  return Await(call, index_.List(call->after_repository, limit));
}

Task<absl::StatusOr<StepResult>> DeadlineIndex::Drop(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) {
  auto call = std::make_shared<Call<absl::StatusOr<StepResult>>>(repository);
  call->after = after;
  return Await(call, index_.Drop(call->repository, call->after, limit));
}

Task<absl::StatusOr<StepResult>> DeadlineIndex::ResetEpoch(const RepositoryId& repository,
                                                           std::uint64_t epoch,
                                                           const std::optional<Digest>& after,
                                                           std::size_t limit) {
  auto call = std::make_shared<Call<absl::StatusOr<StepResult>>>(repository);
  call->after = after;
  return Await(call, index_.ResetEpoch(call->repository, epoch, call->after, limit));
}

}  // namespace kerf
