// Removing entries of early sessions: Index::ForgetOlder, some base buckets at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"
#include "server/redis/redis_client.h"
#include "server/redis/repositories.h"
#include "server/redis/repository_state.h"
#include "server/redis/walk.h"

namespace kerf {

// Of a ForgetResult that has looked at nothing yet.
inline constexpr std::uint64_t kNoEpoch = std::numeric_limits<std::uint64_t>::max();

// In the base buckets of the step. How many entries were looked at; `forgotten` gets what was. All
// outlive it.
Task<absl::StatusOr<std::size_t>> ForgetOlderIn(RedisClient& client, RedisRepository& repository,
                                                const RepositoryState& state, WalkSteps& steps,
                                                std::optional<Digest> after, std::uint64_t epoch,
                                                int replica_count, ForgetResult& forgotten);

}  // namespace kerf
