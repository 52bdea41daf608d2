// A server that takes connections, and never says a word.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "base/check.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf::client {

// Listens on a free port of this machine until it is destroyed.
class SilentServer {
 public:
  SilentServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    auto* const generic = reinterpret_cast<sockaddr*>(&address_);
    KERF_CHECK(bind(listener_.get(), generic, length) == 0 && listen(listener_.get(), 8) == 0);
    KERF_CHECK(getsockname(listener_.get(), generic, &length) == 0);
  }
  std::string address() const { return Cat("127.0.0.1:", ntohs(address_.sin_port)); }

 private:
  const UniqueFd listener_;
  sockaddr_in address_{};
};

}  // namespace kerf::client
