// An index that passes every call on to another: what wrappers begin with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "server/index/index.h"

namespace kerf {

class ForwardingIndex : public Index {
 public:
  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    return index_->Lookup(repository, session_epoch, digests, results);
  }
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    return index_->Commit(repository, session_epoch, entries, replace);
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    return index_->Forget(repository, entries);
  }
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override {
    return index_->ForgetOlder(repository, epoch, after, limit);
  }
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    return index_->AdvanceEpoch(repository, epoch, min_before);
  }
  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override {
    return index_->Scan(repository, after, limit);
  }
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override {
    return index_->Stats(repository);
  }
  Task<absl::StatusOr<bool>> Create(const RepositoryId& repository) override {
    return index_->Create(repository);
  }
  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& repository) override {
    return index_->IsCreated(repository);
  }
  Task<absl::StatusOr<bool>> IsThere(const RepositoryId& repository) override {
    return index_->IsThere(repository);
  }
  Task<absl::StatusOr<std::vector<ListedRepository>>> List(const std::optional<RepositoryId>& after,
                                                           std::size_t limit) override {
    return index_->List(after, limit);
  }
  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                        const std::optional<Digest>& after,
                                        std::size_t limit) override {
    return index_->Drop(repository, after, limit);
  }
  Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                              const std::optional<Digest>& after,
                                              std::size_t limit) override {
    return index_->ResetEpoch(repository, epoch, after, limit);
  }
  std::string_view backend_name() const override { return index_->backend_name(); }
  bool is_remote() const override { return index_->is_remote(); }
  IndexHealth health() const override { return index_->health(); }
  IndexSize size() const override { return index_->size(); }

 protected:
  explicit ForwardingIndex(std::unique_ptr<Index> index)
      : owned_(std::move(index)), index_(owned_.get()) {}
  // `index` outlives it.
  explicit ForwardingIndex(Index* index) : index_(index) {}

  // For answers_at_once of a wrapper that waits for nothing of its own. It is not passed on by
  // itself: one that forgot to say that it waits would have callers' memory for too long.
  bool IndexAnswersAtOnce() const { return index_->answers_at_once(); }

 private:
  const std::unique_ptr<Index> owned_;
  Index* const index_;
};

}  // namespace kerf
