#include "server/net/listen_unix.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/status.h"
#include "base/strings.h"

namespace kerf {

absl::StatusOr<UniqueFd> ListenUnix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("cannot listen on unix:", path, ": a path of a socket has at most ",
                   sizeof address.sun_path - 1, " bytes")));
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid() ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    const int error = errno;
    return absl::FailedPreconditionError(
        ToAbsl(Cat("cannot listen on unix:", path, ": ", std::strerror(error))));
  }
  return socket;
}

}  // namespace kerf
