// Whether a Redis is safe to keep an index in.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/redis/redis_client.h"

namespace kerf {

// Asks all masters and waits for their answers; a cluster that lacks a master or a quorum may be in
// the middle of a failover, so it has `patience` to get over it. FailedPrecondition for a master
// that may evict entries, for a cluster that has no quorum, and for one Redis that has fewer
// replicas than `replica_count`; in a cluster they may come back, so that is a warning. `warnings`
// gets what an operator should know. Not from the client's thread.
absl::Status WaitForMasters(RedisClient& client, int replica_count,
                            std::chrono::milliseconds patience, std::vector<std::string>* warnings);

}  // namespace kerf
