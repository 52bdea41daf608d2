// Who is at the other end of a connection, as far as its address says.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace kerf::door {

struct ClientAddress {
  // By whom bounds are kept: an IPv4 address, or the first 64 bits of an IPv6 one, of which a
  // client may have all the rest.
  using Key = std::array<std::uint8_t, 16>;

  Key key{};
  // With the port, as gRPC writes it: "ipv4:192.0.2.1:7", "ipv6:[2001:db8::1]:7"; "unix:".
  std::string text;
  // Of a unix socket: whose process has connected; nothing: the system does not say, or he may be
  // anybody (MayBeAnybody).
  std::optional<std::uint32_t> user = std::nullopt;
};

// Of accept, which gave `socket`; of an IPv4 client that came over an IPv6 socket its IPv4 address.
ClientAddress ClientAddressOf(const sockaddr_storage& address, int socket);

}  // namespace kerf::door
