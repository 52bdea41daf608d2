// An index whose calls are timed.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "server/index/forwarding_index.h"
#include "server/worker/stream_metrics.h"

namespace kerf {

// Adds to `metrics` how long lookups, commits and forgets took, and which of them failed, before
// whoever awaits them hears of it. Passes everything on.
class MeteredIndex final : public ForwardingIndex {
 public:
  // Both outlive it.
  MeteredIndex(Index* index, StreamMetrics* metrics) : ForwardingIndex(index), metrics_(*metrics) {}

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    const TimePoint began = Clock::now();
    return Time(Stage::kLookup, began,
                ForwardingIndex::Lookup(repository, session_epoch, digests, results));
  }
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    const TimePoint began = Clock::now();
    return Time(Stage::kCommit, began,
                ForwardingIndex::Commit(repository, session_epoch, entries, replace));
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    const TimePoint began = Clock::now();
    return Time(Stage::kForget, began, ForwardingIndex::Forget(repository, entries));
  }

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

  StreamMetrics& metrics_;
};

}  // namespace kerf
