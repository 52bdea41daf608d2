// What is done to all buckets of a repository, some base buckets at a time: their removal, and the
// resetting of their epoch (docs/adr/0008).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"
#include "server/redis/redis_client.h"
#include "server/redis/repositories.h"

namespace kerf {

// As Index::Drop. Client and repositories outlive it; so below.
Task<absl::StatusOr<StepResult>> DropRepository(RedisClient& client,
                                                RedisRepositories& repositories, RepositoryId id,
                                                std::optional<Digest> after, std::size_t limit,
                                                int replica_count);

// As Index::ResetEpoch. The repository outlives it.
Task<absl::StatusOr<StepResult>> ResetRepository(RedisClient& client,
                                                 RedisRepositories& repositories,
                                                 RedisRepository& repository, std::uint64_t epoch,
                                                 std::optional<Digest> after, std::size_t limit,
                                                 int replica_count);

}  // namespace kerf
