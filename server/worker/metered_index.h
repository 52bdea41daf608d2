// An index whose calls are timed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "server/index/index.h"
#include "server/worker/stream_metrics.h"

namespace kerf {

// Adds to `metrics` how long lookups, commits and forgets took, and which of them failed, before
// whoever awaits them hears of it. Passes everything on.
class MeteredIndex final : public Index {
 public:
  // Both outlive it.
  MeteredIndex(Index* index, StreamMetrics* metrics) : index_(*index), metrics_(*metrics) {}

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    const TimePoint began = Clock::now();
    return Time(Stage::kLookup, began, index_.Lookup(repository, session_epoch, digests, results));
  }
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    const TimePoint began = Clock::now();
    return Time(Stage::kCommit, began, index_.Commit(repository, session_epoch, entries, replace));
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    const TimePoint began = Clock::now();
    return Time(Stage::kForget, began, index_.Forget(repository, entries));
  }
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override {
    return index_.ForgetOlder(repository, epoch, after, limit);
  }
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    return index_.AdvanceEpoch(repository, epoch, min_before);
  }
  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override {
    return index_.Scan(repository, after, limit);
  }
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override {
    return index_.Stats(repository);
  }
  Task<absl::StatusOr<bool>> Create(const RepositoryId& repository) override {
    return index_.Create(repository);
  }
  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& repository) override {
    return index_.IsCreated(repository);
  }
  Task<absl::StatusOr<std::vector<ListedRepository>>> List(const std::optional<RepositoryId>& after,
                                                           std::size_t limit) override {
    return index_.List(after, limit);
  }
  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                        const std::optional<Digest>& after,
                                        std::size_t limit) override {
    return index_.Drop(repository, after, limit);
  }
  Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                              const std::optional<Digest>& after,
                                              std::size_t limit) override {
    return index_.ResetEpoch(repository, epoch, after, limit);
  }
  std::string_view backend_name() const override { return index_.backend_name(); }
  bool is_remote() const override { return index_.is_remote(); }

 private:
  using Clock = StageClock::Clock;
  using TimePoint = Clock::time_point;

  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename Value>
  static const absl::Status& StatusOf(const absl::StatusOr<Value>& result) {
    return result.status();
  }

  template <typename Answer>
  void Count(Stage stage, TimePoint began, const Answer& answer) {
    metrics_.Observe(stage, Clock::now() - began);
    if (!StatusOf(answer).ok()) metrics_.failures[static_cast<std::size_t>(stage)].Add();
  }

  template <typename Answer>
  Task<Answer> Time(Stage stage, TimePoint began, Task<Answer> call) {
    if (!call.await_ready()) return TimeLate(stage, began, std::move(call));
    Answer answer = call.TakeValue();
    Count(stage, began, answer);
    return answer;
  }
  template <typename Answer>
  Task<Answer> TimeLate(Stage stage, TimePoint began, Task<Answer> call) {
    Answer answer = co_await call;
    Count(stage, began, answer);
    co_return answer;
  }

  Index& index_;
  StreamMetrics& metrics_;
};

}  // namespace kerf
