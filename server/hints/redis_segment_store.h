// Segments in the Redis of the index, for all workers, apart from its entries: keys of their own,
// each with a time to live, so that a Redis whose memory is full throws them away before anything
// else (docs/adr/0009).
#pragma once

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "server/hints/segment_store.h"
#include "server/redis/redis_client.h"

namespace kerf {

struct RedisSegmentOptions {
  // The timeouts in it are not used: those below are.
  RedisOptions redis;
  // Of each key, from when it was written last. Above HintCacheOptions::rewrite_after_days.
  std::chrono::hours time_to_live{30 * 24};
  // A hint that comes later is an error: it would be of no use any more.
  std::chrono::milliseconds timeout{500};
};

// Writes nothing (FailedPrecondition) while a master has a maxmemory and evicts nothing: hints
// would take the room of entries, and commits would fail. That is looked up once in a while.
//
// Only starts, over connections of its own, so that segments do not stand in front of lookups;
// whether there is a Redis shows in the answers. `done` is called from the Redis client's thread,
// with Cancelled if the store goes. InvalidArgument without seeds. Errors: RedisClient.
absl::StatusOr<std::unique_ptr<SegmentStore>> CreateRedisSegmentStore(RedisSegmentOptions options);

}  // namespace kerf
