// The index in Redis: one for many workers (docs/adr/0008).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/index/async_index.h"
#include "server/index/index.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_client.h"

namespace kerf {

struct RedisIndexOptions {
  RedisOptions redis;
  // Replicas that must have a commit, a forget or an epoch before it is answered.
  int replica_count = 0;
  // Repositories that are made get buckets for so many entries, and more as they grow.
  std::uint64_t expected_entry_count = 0;
  // Of repositories that are made, 1 to kMaxBaseBits: the same in all processes.
  int base_bits = kDefaultBaseBits;
  // Whether Open is to give up waiting for Redis; may be empty.
  std::function<bool()> is_cancelled = nullptr;
};

// Thread-safe; `done` is called from the Redis client's thread. Beside the errors of Index:
// Unavailable where Redis was not to be had in time, PermissionDenied where it lets kerf not in.
class RedisIndex : public AsyncIndex {
 public:
  using ForgetDone = std::function<void(const absl::StatusOr<ForgetResult>&)>;
  using ForgetOlderDone = std::function<void(const absl::StatusOr<ForgetOlderResult>&)>;
  using EpochDone = std::function<void(const absl::StatusOr<std::uint64_t>&)>;
  using ScanDone = std::function<void(const absl::StatusOr<std::vector<IndexEntry>>&)>;
  using StatsDone = std::function<void(const absl::StatusOr<IndexStats>&)>;

  // Waits for Redis, and refuses one that is not safe to keep an index in (master_checks.h);
  // `warnings` gets what an operator should know, such as that a master keeps no log.
  static absl::StatusOr<std::unique_ptr<RedisIndex>> Open(RedisIndexOptions options,
                                                          std::vector<std::string>* warnings);

  // Ends all calls, and those that come later, with Cancelled, before the return.
  virtual void Close() = 0;

  // Of the client that it speaks to Redis with.
  virtual RedisCounters counters() const = 0;

  // As of Index.
  virtual void ForgetAndCount(const RepositoryId& repository, std::span<const IndexEntry> entries,
                              ForgetDone done) = 0;
  // Looks at whole base buckets.
  virtual void ForgetOlder(const RepositoryId& repository, std::uint64_t epoch,
                           const std::optional<Digest>& after, std::size_t limit,
                           ForgetOlderDone done) = 0;
  virtual void AdvanceEpoch(const RepositoryId& repository, std::uint64_t epoch,
                            std::uint64_t min_before, EpochDone done) = 0;
  virtual void Scan(const RepositoryId& repository, const std::optional<Digest>& after,
                    std::size_t limit, ScanDone done) = 0;
  virtual void Stats(const RepositoryId& repository, StatsDone done) = 0;
};

// The same for callers that wait. `index` outlives it.
std::unique_ptr<Index> MakeBlockingIndex(RedisIndex* index);

}  // namespace kerf
