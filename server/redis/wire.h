// Commands as they go to Redis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/redis/redis_client.h"

namespace kerf::redis {

// A command in Redis's protocol (RESP): an array of strings.
std::string FormatWire(const std::vector<std::string>& arguments);

// A key of no meaning in the slot of `key`.
std::string BarrierKeyOf(std::string_view key);

// The write in front of a WAIT.
std::string BarrierWire(const std::string& barrier_key);

// The first command of a connection that has a password.
std::string AuthWire(const RedisOptions& options);

// InvalidArgument for options that contradict each other.
absl::Status CheckOptions(const RedisOptions& options);

}  // namespace kerf::redis
