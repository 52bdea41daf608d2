// An index that takes no changes while nobody could tell of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/audit/sink.h"
#include "server/errors/errors.h"
#include "server/index/forwarding_index.h"

namespace kerf::audit {

// Refuses commits, forgets, new epochs and what operators do with repositories with
// AUDIT_UNAVAILABLE while the sink is in trouble and refuses, and says so in its health, by which
// clients and fronts go elsewhere; where the sink does not refuse the trouble is one of its
// findings. Passes on all else.
class GuardedIndex final : public ForwardingIndex {
 public:
  // Both outlive it.
  GuardedIndex(Index* index, const Sink* sink) : ForwardingIndex(index), sink_(*sink) {}

  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    if (absl::Status refusal = Refusal(); !refusal.ok()) return refusal;
    return ForwardingIndex::Commit(repository, session_epoch, entries, replace);
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    if (absl::Status refusal = Refusal(); !refusal.ok()) {
      return absl::StatusOr<ForgetResult>(refusal);
    }
    return ForwardingIndex::Forget(repository, entries);
  }
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override {
    if (absl::Status refusal = Refusal(); !refusal.ok()) {
      return absl::StatusOr<ForgetOlderResult>(refusal);
    }
    return ForwardingIndex::ForgetOlder(repository, epoch, after, limit);
  }
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    if (absl::Status refusal = Refusal(); !refusal.ok()) {
      return absl::StatusOr<std::uint64_t>(refusal);
    }
    return ForwardingIndex::AdvanceEpoch(repository, epoch, min_before);
  }
  Task<absl::StatusOr<bool>> Create(const RepositoryId& repository) override {
    if (absl::Status refusal = Refusal(); !refusal.ok()) return absl::StatusOr<bool>(refusal);
    return ForwardingIndex::Create(repository);
  }
  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                        const std::optional<Digest>& after,
                                        std::size_t limit) override {
    if (absl::Status refusal = Refusal(); !refusal.ok()) {
      return absl::StatusOr<StepResult>(refusal);
    }
    return ForwardingIndex::Drop(repository, after, limit);
  }
  Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                              const std::optional<Digest>& after,
                                              std::size_t limit) override {
    if (absl::Status refusal = Refusal(); !refusal.ok()) {
      return absl::StatusOr<StepResult>(refusal);
    }
    return ForwardingIndex::ResetEpoch(repository, epoch, after, limit);
  }
  bool answers_at_once() const override { return IndexAnswersAtOnce(); }
  IndexHealth health() const override {
    IndexHealth health = ForwardingIndex::health();
    const absl::Status trouble = Trouble();
    if (trouble.ok()) return health;
    if (sink_.options().refuses) {
      health.status.Update(trouble);
    } else {
      health.findings.push_back(
          Cat(MessageOf(trouble), "; kerfd goes on without it (--audit-on-failure go-on)"));
    }
    return health;
  }

 private:
  absl::Status Trouble() const {
    return Annotate(sink_.status(), "the audit log cannot be written");
  }
  absl::Status Refusal() const {
    if (!sink_.options().refuses) return absl::OkStatus();
    const absl::Status trouble = Trouble();
    if (trouble.ok()) return trouble;
    return MakeError(Reason::kAuditUnavailable, MessageOf(trouble));
  }

  const Sink& sink_;
};

}  // namespace kerf::audit
