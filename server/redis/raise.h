// Telling a repository's epoch to all of its buckets, those too that nobody has made yet.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "server/redis/redis_client.h"
#include "server/redis/repositories.h"

namespace kerf {

// Index::AdvanceEpoch for a repository that is there. A commit of an earlier session that finds its
// bucket missing is complete before the return, or refused (docs/adr/0008). All outlive it.
Task<absl::StatusOr<std::uint64_t>> RaiseEpoch(RedisClient& client, RedisRepositories& repositories,
                                               RedisRepository& repository, std::uint64_t epoch,
                                               std::uint64_t min_before, int replica_count);

}  // namespace kerf
