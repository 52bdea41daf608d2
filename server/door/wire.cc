#include "server/door/wire.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace kerf::door {
namespace {

bool IsNothingNow() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

class ClearWire final : public Wire {
 public:
  explicit ClearWire(UniqueFd socket) : Wire(std::move(socket)) {}

  Got Read(std::span<std::uint8_t> room) override {
    const ssize_t size = recv(socket(), room.data(), room.size(), 0);
    if (size > 0) return {Got::Kind::kBytes, static_cast<std::size_t>(size)};
    return {size < 0 && IsNothingNow() ? Got::Kind::kNothing : Got::Kind::kEnded};
  }

  Put Write(std::span<const iovec> vectors) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(vectors.data());
    message.msg_iovlen = vectors.size();
    const ssize_t size = sendmsg(socket(), &message, MSG_NOSIGNAL);
    if (size < 0) return {.is_open = IsNothingNow()};
    return {.size_bytes = static_cast<std::size_t>(size), .has_moved = size > 0};
  }
};

}  // namespace

std::unique_ptr<Wire> MakeClearWire(UniqueFd socket) {
  return std::make_unique<ClearWire>(std::move(socket));
}

}  // namespace kerf::door
