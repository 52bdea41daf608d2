// How kerfd's settings say that Redis is reached.
#pragma once

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "base/tls/tls_source.h"
#include "server/redis/redis_client.h"
#include "server/redis/redis_settings.h"

namespace kerf {

// Commands wait for `timeout` at most. `tls` is how Redis is spoken to; null: in the clear.
// FailedPrecondition for a password file that cannot be read, or that everybody may read.
absl::StatusOr<RedisOptions> RedisOptionsOf(const RedisSettings& settings,
                                            std::chrono::milliseconds timeout,
                                            std::shared_ptr<const TlsSource> tls);

}  // namespace kerf
