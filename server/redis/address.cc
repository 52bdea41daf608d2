#include "server/redis/address.h"

#include <charconv>

#include "base/strings.h"

namespace kerf {

absl::StatusOr<RedisAddress> ParseRedisAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  RedisAddress address;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
    if (is_bracketed) host = host.substr(1, host.size() - 2);
    if (is_bracketed || host.find(':') == std::string_view::npos) address.host = std::string(host);
    const std::string_view port = text.substr(colon + 1);
    const auto parsed = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size()) address.port = 0;
  }
  if (!address.host.empty() && address.port >= 1 && address.port <= kMaxPort) return address;
  return absl::InvalidArgumentError(
      ToAbsl(Cat("'", text, "' is no address of a Redis: want HOST:PORT or [IPV6]:PORT")));
}

std::string FormatRedisAddress(const RedisAddress& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return is_ipv6 ? Cat("[", address.host, "]:", address.port)
                 : Cat(address.host, ":", address.port);
}

}  // namespace kerf
