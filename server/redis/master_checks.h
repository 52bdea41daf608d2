// Whether a Redis is safe to keep an index in.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/redis/redis_client.h"

namespace kerf {

// Asks all masters and waits for their answers; a cluster that lacks a master or a quorum may be in
// the middle of a failover, so it has `patience` to get over it, then that is Unavailable.
// FailedPrecondition for a master that may evict entries, and for one Redis that has fewer replicas
// than `replica_count`; in a cluster they may come back, so that is a warning. Cancelled soon after
// `is_cancelled` (may be empty) says so. `warnings` gets what an operator should know. Not from the
// client's thread.
absl::Status WaitForMasters(RedisClient& client, int replica_count,
                            std::chrono::milliseconds patience,
                            const std::function<bool()>& is_cancelled,
                            std::vector<std::string>* warnings);

}  // namespace kerf
