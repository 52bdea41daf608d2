#include "server/redis/redis_index.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

class Blocking final : public Index {
 public:
  explicit Blocking(RedisIndex* index) : index_(*index) {}

  absl::Status Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                      std::span<const Digest> digests, std::span<LookupResult> results) override {
    return WaitFor<absl::Status>([&](auto done) {
      index_.Lookup(repository, session_epoch, digests, results, std::move(done));
    });
  }
  absl::Status Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                      std::span<const IndexEntry> entries, bool replace) override {
    return WaitFor<absl::Status>([&](auto done) {
      index_.Commit(repository, session_epoch, entries, replace, std::move(done));
    });
  }
  absl::StatusOr<ForgetResult> Forget(const RepositoryId& repository,
                                      std::span<const IndexEntry> entries) override {
    return WaitFor<absl::StatusOr<ForgetResult>>(
        [&](auto done) { index_.ForgetAndCount(repository, entries, std::move(done)); });
  }
  absl::StatusOr<ForgetOlderResult> ForgetOlder(const RepositoryId& repository, std::uint64_t epoch,
                                                const std::optional<Digest>& after,
                                                std::size_t limit) override {
    return WaitFor<absl::StatusOr<ForgetOlderResult>>(
        [&](auto done) { index_.ForgetOlder(repository, epoch, after, limit, std::move(done)); });
  }
  absl::StatusOr<std::uint64_t> AdvanceEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                             std::uint64_t min_before) override {
    return WaitFor<absl::StatusOr<std::uint64_t>>(
        [&](auto done) { index_.AdvanceEpoch(repository, epoch, min_before, std::move(done)); });
  }
  absl::StatusOr<std::vector<IndexEntry>> Scan(const RepositoryId& repository,
                                               const std::optional<Digest>& after,
                                               std::size_t limit) override {
    return WaitFor<absl::StatusOr<std::vector<IndexEntry>>>(
        [&](auto done) { index_.Scan(repository, after, limit, std::move(done)); });
  }
  absl::StatusOr<IndexStats> Stats(const RepositoryId& repository) override {
    return WaitFor<absl::StatusOr<IndexStats>>(
        [&](auto done) { index_.Stats(repository, std::move(done)); });
  }
  std::string_view backend_name() const override { return "redis"; }

 private:
  RedisIndex& index_;
};

}  // namespace

std::unique_ptr<Index> MakeBlockingIndex(RedisIndex* index) {
  return std::make_unique<Blocking>(index);
}

}  // namespace kerf
