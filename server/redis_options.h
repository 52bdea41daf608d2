// How kerfd's settings say that Redis is reached.
#pragma once

#include <chrono>

#include "absl/status/statusor.h"
#include "server/redis/redis_client.h"
#include "server/redis/redis_settings.h"

namespace kerf {

// Commands wait for `timeout` at most. FailedPrecondition for a password file that cannot be read,
// or that everybody may read.
absl::StatusOr<RedisOptions> RedisOptionsOf(const RedisSettings& settings,
                                            std::chrono::milliseconds timeout);

}  // namespace kerf
