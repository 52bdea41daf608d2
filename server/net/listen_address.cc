#include "server/net/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

absl::Status Malformed(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(
      ToAbsl(Cat("'", text, "': ", why, "; write unix:PATH or HOST:PORT, as 127.0.0.1:7461")));
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  ListenAddress address;
  address.target = std::string(text);
  if (text.substr(0, kUnixPrefix.size()) == kUnixPrefix) {
    address.is_unix = true;
    address.path = std::string(text.substr(kUnixPrefix.size()));
    if (address.path.empty()) return Malformed(text, "the path is empty");
    if (address.path.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return Malformed(
          text, Cat("the path has ", address.path.size(), " bytes; the system takes at most ",
                    sizeof(sockaddr_un{}.sun_path) - 1));
    }
    return address;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return Malformed(text, "no port");
  const std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (host.find(':') != std::string_view::npos && (host.front() != '[' || host.back() != ']')) {
    return Malformed(text, "an IPv6 address stands in brackets, as [::1]:7461");
  }
  std::uint32_t port = 0;
  if (!absl::SimpleAtoi(ToAbsl(port_text), &port) || port > 65'535) {
    return Malformed(text, "the port is a number from 0 to 65535");
  }
  return address;
}

bool IsLoopback(const ListenAddress& address) {
  std::string host = address.target.substr(0, address.target.rfind(':'));
  if (host == "localhost") return true;
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  in_addr four{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  if (inet_pton(AF_INET6, host.c_str(), &six) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

absl::Status PrepareUnixSocket(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return absl::FailedPreconditionError(
        ToAbsl(Cat("cannot listen on unix:", path, ": ", std::strerror(errno))));
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("cannot listen on unix:", path, ": a file that is no socket is there")));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) {
    return absl::UnavailableError(ToAbsl(Cat("no socket: ", std::strerror(errno))));
  }
  const int result = connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  close(probe);
  if (result == 0 || error == EAGAIN) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("cannot listen on unix:", path, ": another server listens there")));
  }
  if (error != ECONNREFUSED) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("cannot listen on unix:", path, ": ", std::strerror(error))));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("cannot replace the dead socket unix:", path, ": ", std::strerror(errno))));
  }
  return absl::OkStatus();
}

}  // namespace kerf
