#include "server/door/client_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/overflow_user.h"
#include "base/strings.h"

namespace kerf::door {
namespace {

constexpr std::size_t kIpv4Bytes = 4;
// Where an IPv4 address stands in an IPv6 one that stands for it.
constexpr std::size_t kMappedAt = 12;
constexpr std::size_t kNetworkBytes = 8;

ClientAddress Ipv4(const std::uint8_t* bytes, std::uint16_t port) {
  ClientAddress client;
  client.key[10] = client.key[11] = 0xFF;
  std::copy_n(bytes, kIpv4Bytes, client.key.begin() + kMappedAt);
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, bytes, text, sizeof text);
  client.text = Cat("ipv4:", text, ":", port);
  return client;
}

// Where the user stands, behind a mark that no IPv6 network has: its second half is nothing.
constexpr std::size_t kUserAt = 12;
constexpr std::size_t kUnixMarkAt = 8;

ClientAddress Unix(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  ClientAddress client;
  client.text = "unix:";
  client.key[kUnixMarkAt] = 1;
  // Whom the system does not tell of is nobody, and so is one by whom it means several.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return client;
  if (!MayBeAnybody(peer.uid)) client.user = peer.uid;
  std::memcpy(&client.key[kUserAt], &peer.uid, sizeof peer.uid);
  return client;
}

}  // namespace

ClientAddress ClientAddressOf(const sockaddr_storage& address, int socket) {
  if (address.ss_family == AF_UNIX) return Unix(socket);
  if (address.ss_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, &address, sizeof ipv4);
    std::uint8_t bytes[kIpv4Bytes];
    std::memcpy(bytes, &ipv4.sin_addr, sizeof bytes);
    return Ipv4(bytes, ntohs(ipv4.sin_port));
  }
  sockaddr_in6 ipv6{};
  std::memcpy(&ipv6, &address, sizeof ipv6);
  const std::uint8_t* const bytes = ipv6.sin6_addr.s6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) {
    return Ipv4(bytes + kMappedAt, ntohs(ipv6.sin6_port));
  }
  ClientAddress client;
  std::copy_n(bytes, kNetworkBytes, client.key.begin());
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, bytes, text, sizeof text);
  client.text = Cat("ipv6:[", text, "]:", ntohs(ipv6.sin6_port));
  return client;
}

}  // namespace kerf::door
