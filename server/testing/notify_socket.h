// A service manager for tests: the socket of NOTIFY_SOCKET, and what a service says there.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"

namespace kerf {

// Not thread-safe.
class NotifySocket {
 public:
  // `name` as in NOTIFY_SOCKET: a short path at which there is nothing, or '@' and a name.
  explicit NotifySocket(const std::string& name)
      : name_(name), file_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    KERF_CHECK(file_.valid() && name.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const std::size_t size = offsetof(sockaddr_un, sun_path) + name.size();
    KERF_CHECK(bind(file_.get(), reinterpret_cast<const sockaddr*>(&address),
                    static_cast<socklen_t>(size)) == 0);
  }
  ~NotifySocket() {
    if (name_[0] == '/') unlink(name_.c_str());
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  // The next message; none within `patience`.
  std::optional<std::string> Next(std::chrono::milliseconds patience = std::chrono::seconds(30)) {
    pollfd waits{.fd = file_.get(), .events = POLLIN, .revents = 0};
    if (poll(&waits, 1, static_cast<int>(patience.count())) != 1) return std::nullopt;
    std::string text(4096, '\0');
    const ssize_t size = recv(file_.get(), text.data(), text.size(), MSG_DONTWAIT);
    if (size < 0) return std::nullopt;
    text.resize(static_cast<std::size_t>(size));
    return text;
  }
  // The next one that has this line; none if there is no such. Others are dropped.
  std::optional<std::string> NextWith(const std::string& line) {
    while (std::optional<std::string> text = Next()) {
      if (("\n" + *text + "\n").find("\n" + line + "\n") != std::string::npos) return text;
    }
    return std::nullopt;
  }

 private:
  const std::string name_;
  const UniqueFd file_;
};

}  // namespace kerf
