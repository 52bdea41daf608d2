// Where a Redis listens.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kerf {

inline constexpr int kMaxPort = 65'535;

struct RedisAddress {
  std::string host;
  int port = 0;

  friend bool operator==(const RedisAddress&, const RedisAddress&) = default;
  friend auto operator<=>(const RedisAddress&, const RedisAddress&) = default;
};

// InvalidArgument unless it is HOST:PORT or [IPV6]:PORT.
absl::StatusOr<RedisAddress> ParseRedisAddress(std::string_view text);
std::string FormatRedisAddress(const RedisAddress& address);

}  // namespace kerf
