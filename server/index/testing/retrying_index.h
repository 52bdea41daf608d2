// Repeats calls of which nobody knows what became, while their thread waits, as callers do whose
// index is far away. What the last one says of the time before it may be what an earlier one of
// them has made: fewer entries to forget, an epoch that is raised already.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/wait_for.h"
#include "server/index/forwarding_index.h"

namespace kerf {

class RetryingIndex final : public ForwardingIndex {
 public:
  // Counts the times at which part of an index begins to move, and ends: odd while it moves.
  using Moves = std::function<std::uint64_t()>;

  // A call that still fails after `patience` is answered as it is. `repeat_count` counts, and
  // outlives it. With `moves` a lookup is repeated that finds something unverified while part of
  // the index moves: then it may say so of anything (docs/adr/0022). Else it is what it says.
  RetryingIndex(std::unique_ptr<Index> index, std::chrono::seconds patience,
                std::atomic<std::uint64_t>* repeat_count, Moves moves = nullptr)
      : ForwardingIndex(std::move(index)),
        patience_(patience),
        repeat_count_(*repeat_count),
        moves_(std::move(moves)) {}

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    const auto end = std::chrono::steady_clock::now() + patience_;
    while (true) {
      const std::uint64_t before = MoveCount();
      absl::Status status = Repeat([&] {
        return WaitFor(ForwardingIndex::Lookup(repository, session_epoch, digests, results));
      });
      const bool has_moved = before % 2 != 0 || MoveCount() != before;
      const auto is_unverified = [](const LookupResult& result) {
        return result.verdict == Verdict::kUnverified;
      };
      if (!status.ok() || !has_moved || std::chrono::steady_clock::now() >= end ||
          std::none_of(results.begin(), results.end(), is_unverified)) {
        return status;
      }
      std::this_thread::sleep_for(kPause);
    }
  }
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    return Repeat([&] {
      return WaitFor(ForwardingIndex::Commit(repository, session_epoch, entries, replace));
    });
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    return Repeat([&] { return WaitFor(ForwardingIndex::Forget(repository, entries)); });
  }
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override {
    return Repeat(
        [&] { return WaitFor(ForwardingIndex::ForgetOlder(repository, epoch, after, limit)); });
  }
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    return Repeat(
        [&] { return WaitFor(ForwardingIndex::AdvanceEpoch(repository, epoch, min_before)); });
  }
  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override {
    return Repeat([&] { return WaitFor(ForwardingIndex::Scan(repository, after, limit)); });
  }
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override {
    return Repeat([&] { return WaitFor(ForwardingIndex::Stats(repository)); });
  }
  Task<absl::StatusOr<bool>> Create(const RepositoryId& repository) override {
    return Repeat([&] { return WaitFor(ForwardingIndex::Create(repository)); });
  }
  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& repository) override {
    return Repeat([&] { return WaitFor(ForwardingIndex::IsCreated(repository)); });
  }
  Task<absl::StatusOr<bool>> IsThere(const RepositoryId& repository) override {
    return Repeat([&] { return WaitFor(ForwardingIndex::IsThere(repository)); });
  }
  Task<absl::StatusOr<std::vector<ListedRepository>>> List(const std::optional<RepositoryId>& after,
                                                           std::size_t limit) override {
    return Repeat([&] { return WaitFor(ForwardingIndex::List(after, limit)); });
  }
  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                        const std::optional<Digest>& after,
                                        std::size_t limit) override {
    return Repeat([&] { return WaitFor(ForwardingIndex::Drop(repository, after, limit)); });
  }
  Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                              const std::optional<Digest>& after,
                                              std::size_t limit) override {
    return Repeat(
        [&] { return WaitFor(ForwardingIndex::ResetEpoch(repository, epoch, after, limit)); });
  }

 private:
  static constexpr std::chrono::milliseconds kPause{10};

  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename Value>
  static const absl::Status& StatusOf(const absl::StatusOr<Value>& result) {
    return result.status();
  }

  std::uint64_t MoveCount() const { return moves_ != nullptr ? moves_() : 0; }

  template <typename Call>
  std::invoke_result_t<const Call&> Repeat(const Call& call) {
    const auto end = std::chrono::steady_clock::now() + patience_;
    while (true) {
      auto result = call();
      const absl::Status& status = StatusOf(result);
      if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return result;
      if (std::chrono::steady_clock::now() >= end) return result;
      ++repeat_count_;
      std::this_thread::sleep_for(kPause);
    }
  }

  const std::chrono::seconds patience_;
  std::atomic<std::uint64_t>& repeat_count_;
  const Moves moves_;
};

}  // namespace kerf
