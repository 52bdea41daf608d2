// The index in a test's Redis, for callers that wait.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/index/index.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {

class OwningRedisIndex final : public Index {
 public:
  explicit OwningRedisIndex(std::unique_ptr<RedisIndex> leaf)
      : leaf_(std::move(leaf)), index_(MakeBlockingIndex(leaf_.get())) {}

  absl::Status Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                      std::span<const Digest> digests, std::span<LookupResult> results) override {
    return index_->Lookup(repository, session_epoch, digests, results);
  }
  absl::Status Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                      std::span<const IndexEntry> entries, bool replace) override {
    return index_->Commit(repository, session_epoch, entries, replace);
  }
  absl::StatusOr<ForgetResult> Forget(const RepositoryId& repository,
                                      std::span<const IndexEntry> entries) override {
    return index_->Forget(repository, entries);
  }
  absl::StatusOr<ForgetOlderResult> ForgetOlder(const RepositoryId& repository, std::uint64_t epoch,
                                                const std::optional<Digest>& after,
                                                std::size_t limit) override {
    return index_->ForgetOlder(repository, epoch, after, limit);
  }
  absl::StatusOr<std::uint64_t> AdvanceEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                             std::uint64_t min_before) override {
    return index_->AdvanceEpoch(repository, epoch, min_before);
  }
  absl::StatusOr<std::vector<IndexEntry>> Scan(const RepositoryId& repository,
                                               const std::optional<Digest>& after,
                                               std::size_t limit) override {
    return index_->Scan(repository, after, limit);
  }
  absl::StatusOr<IndexStats> Stats(const RepositoryId& repository) override {
    return index_->Stats(repository);
  }
  std::string_view backend_name() const override { return index_->backend_name(); }

 private:
  std::unique_ptr<RedisIndex> leaf_;
  std::unique_ptr<Index> index_;
};

// `redis` outlives it. Dies if there is no Redis.
inline std::unique_ptr<Index> OpenRedisOn(const TestRedis& redis, int replica_count,
                                          int base_bits = kDefaultBaseBits) {
  RedisIndexOptions options{redis.options(), replica_count};
  options.base_bits = base_bits;
  std::vector<std::string> warnings;
  auto leaf = RedisIndex::Open(std::move(options), &warnings);
  KERF_CHECK(leaf.ok());
  return std::make_unique<OwningRedisIndex>(*std::move(leaf));
}

}  // namespace kerf
