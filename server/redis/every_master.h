// Waiting for the replicas of all masters, whatever lies on each.
#pragma once

#include "absl/status/status.h"
#include "base/task.h"
#include "server/redis/redis_client.h"

namespace kerf {

// Whatever any master has carried out before, by whomever it was sent, so many of its replicas have
// by the return: a replica that takes over brings nothing back of the time before. Nothing to do
// for 0. Unavailable if one of them cannot say so in time. The client outlives it.
Task<absl::Status> WaitForEveryMaster(RedisClient& client, int replica_count);

}  // namespace kerf
