// The index in Redis: one for many workers (docs/adr/0008).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/index/index.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_client.h"
#include "server/redis/redis_watch.h"
#include "server/redis/repository_state.h"

namespace kerf {

struct RedisIndexOptions {
  RedisOptions redis;
  // Replicas that must have a commit, a forget or an epoch before it is answered.
  int replica_count = 0;
  // A repository's buckets are split at first as far as so many entries need, and further as they
  // grow.
  std::uint64_t expected_entry_count = 0;
  // Of repositories that are made, 1 to kMaxBaseBits: the same in all processes.
  int base_bits = kDefaultBaseBits;
  // How repositories are made. kWhole: as kerfd 0.1.0 knows them; those that are found in the later
  // layout are turned into such, so that it can go on with them.
  RedisLayout layout = RedisLayout::kLazy;
  // Whether Open is to give up waiting for Redis; may be empty.
  std::function<bool()> is_cancelled = nullptr;
  // Told by Open what it waits for, soon and again; may be empty.
  std::function<void(const absl::Status&)> on_trouble = nullptr;
  // How it is looked at while it is open.
  RedisWatchOptions watch = {};
  // What its calls go through once it is open; for tests that hold commands up. May be empty.
  std::function<std::unique_ptr<RedisClient>(std::unique_ptr<RedisClient>)> wrap_client = nullptr;
};

// Thread-safe; answers from the Redis client's thread. Beside the errors of Index: Unavailable
// where Redis was not to be had in time, PermissionDenied where it lets kerf not in. ForgetOlder
// looks at whole base buckets.
class RedisIndex : public Index {
 public:
  // Waits for Redis, and refuses one that is not safe to keep an index in (master_checks.h);
  // `warnings` gets what an operator should know, such as that a master keeps no log.
  static absl::StatusOr<std::unique_ptr<RedisIndex>> Open(RedisIndexOptions options,
                                                          std::vector<std::string>* warnings);

  // Ends all calls, and those that come later, with Cancelled, before the return.
  virtual void Close() = 0;

  // Of the client that it speaks to Redis with.
  virtual RedisCounters counters() const = 0;
  virtual std::optional<std::int64_t> certificate_expires_at_s() const = 0;
  // Of all masters, as of the last seconds.
  virtual RedisMemory memory() const = 0;
};

}  // namespace kerf
