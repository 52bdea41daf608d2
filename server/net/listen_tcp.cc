#include "server/net/listen_tcp.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/strings.h"

namespace kerf {
namespace {

absl::Status CannotListen(const std::string& target, std::string_view why) {
  return absl::FailedPreconditionError(ToAbsl(Cat("cannot listen on ", target, ": ", why)));
}

absl::Status CannotListen(const std::string& target) {
  const int error = errno;
  return CannotListen(target, error == EADDRINUSE ? "the address is in use"
                                                  : std::string_view(std::strerror(error)));
}

void SetPort(sockaddr* address, in_port_t port) {
  // As the network writes it.
  if (address->sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = port;
  } else {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = port;
  }
}

absl::StatusOr<in_port_t> PortOf(int socket, const std::string& target) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return CannotListen(target);
  }
  return bound.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&bound)->sin_port
                                    : reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port;
}

// `is_here`: whether the machine has such an address.
absl::StatusOr<UniqueFd> ListenAt(const addrinfo& info, bool takes_ipv4_too,
                                  const std::string& target, bool& is_here) {
  UniqueFd socket(::socket(info.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  is_here = socket.valid() || errno != EAFNOSUPPORT;
  if (!socket.valid()) return CannotListen(target);
  const int on = 1;
  const int is_ipv6_only = takes_ipv4_too ? 0 : 1;
  // Else a port stays taken for a minute by connections of a kerfd that is gone.
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (info.ai_family == AF_INET6) {
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &is_ipv6_only, sizeof is_ipv6_only);
  }
  if (bind(socket.get(), info.ai_addr, info.ai_addrlen) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    is_here = errno != EADDRNOTAVAIL;
    return CannotListen(target);
  }
  return socket;
}

absl::StatusOr<TcpListeners> ListenAtAll(const std::string& host, const std::string& port,
                                         bool takes_ipv4_too, const std::string& target) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return CannotListen(target, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> infos(found, freeaddrinfo);
  TcpListeners listeners;
  absl::Status missing = CannotListen(target, "the host has no address");
  in_port_t picked = 0;
  for (addrinfo* info = infos.get(); info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    if (!listeners.sockets.empty()) SetPort(info->ai_addr, picked);
    bool is_here = true;
    auto socket = ListenAt(*info, takes_ipv4_too, target, is_here);
    if (!is_here) {
      missing = socket.status();
      continue;
    }
    KERF_RETURN_IF_ERROR(socket.status());
    KERF_ASSIGN_OR_RETURN(picked, PortOf(socket->get(), target));
    listeners.sockets.push_back(*std::move(socket));
  }
  // The name of a host may stand for an address that the machine does not have: ::1 beside
  // 127.0.0.1 where there is no IPv6.
  if (listeners.sockets.empty()) return missing;
  listeners.address = Cat(target.substr(0, target.rfind(':') + 1), ntohs(picked));
  return listeners;
}

}  // namespace

absl::StatusOr<TcpListeners> ListenTcp(const std::string& target) {
  const std::size_t colon = target.rfind(':');
  std::string host = target.substr(0, colon);
  const std::string port = target.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  if (host == "0.0.0.0" || host == "::") {
    auto both = ListenAtAll("::", port, true, target);
    // A machine may be without IPv6.
    if (both.ok() || host == "::") return both;
  }
  return ListenAtAll(host, port, false, target);
}

}  // namespace kerf
