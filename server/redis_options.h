// How kerfd's settings say that Redis is reached.
#pragma once

#include "absl/status/statusor.h"
#include "server/redis/redis_client.h"
#include "server/settings/settings.h"

namespace kerf {

// FailedPrecondition for a password file that cannot be read, or that everybody may read.
absl::StatusOr<RedisOptions> RedisOptionsOf(const Settings& settings);

}  // namespace kerf
