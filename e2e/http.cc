#include "e2e/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdint>

#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf::e2e {

HttpAnswer GetHttp(const std::string& address, const std::string& path,
                   std::chrono::milliseconds patience) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueFd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(patience);
  const timeval wait{
      .tv_sec = seconds.count(),
      .tv_usec = std::chrono::duration_cast<std::chrono::microseconds>(patience - seconds).count()};
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return {};
  const std::string request =
      Cat("GET ", path, " HTTP/1.1\r\nHost: kerfd\r\nConnection: close\r\n\r\n");
  if (send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return {};
  }
  std::string text;
  char part[4096];
  for (ssize_t size = 0; (size = read(connection.get(), part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(size));
  }
  const std::size_t code = text.find(' ');
  const std::size_t body = text.find("\r\n\r\n");
  if (code == std::string::npos || body == std::string::npos) return {};
  return {std::stoi(text.substr(code)), text.substr(body + 4)};
}

}  // namespace kerf::e2e
