// What comes from a socket and goes to it: as it is, or within TLS.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/tls/tls_context.h"
#include "base/unique_fd.h"
#include "server/door/door_metrics.h"

namespace kerf::door {

// One end of a connection, whose socket does not block. Not thread-safe.
class Wire {
 public:
  virtual ~Wire() = default;

  int socket() const { return socket_.get(); }

  struct Got {
    enum class Kind : std::uint8_t {
      // Some bytes; fewer than there was room for: nothing else is there now.
      kBytes,
      kNothing,
      kEnded,
    };
    Kind kind = Kind::kNothing;
    std::size_t size_bytes = 0;
  };
  virtual Got Read(std::span<std::uint8_t> room) = 0;
  // Something was read of the socket and not given out, of which the socket will not tell.
  virtual bool has_unread() const { return false; }

  struct Put {
    // False: the connection has ended.
    bool is_open = true;
    // Of those that were given; 0: it takes none now.
    std::size_t size_bytes = 0;
    // The socket has taken something.
    bool has_moved = false;
  };
  // First what it has taken before, then these, which may be none.
  virtual Put Write(std::span<const iovec> vectors) = 0;
  // It has taken what the socket has not.
  virtual bool has_unsent() const { return false; }
  // It takes what there is once there is room in the socket; else the peer has to say something
  // first.
  virtual bool is_open_for_writing() const { return true; }

  // It has begun a handshake: the peer knows what it says, and we have paid for it.
  virtual bool has_greeted() const { return false; }
  // How the peer is seen, once it has said something: "clear"; "tls", with a space and the name of
  // a certificate behind it that was looked at.
  virtual std::string seen() const { return "clear"; }
  // Why there is no connection, where it was never made.
  virtual std::optional<EndReason> failure() const { return std::nullopt; }

 protected:
  explicit Wire(UniqueFd socket) : socket_(std::move(socket)) {}

 private:
  const UniqueFd socket_;
};

std::unique_ptr<Wire> MakeClearWire(UniqueFd socket);
// `session` is told already whether it accepts or connects, and has no socket. What of it the
// socket does not take, less than 96 KiB, it keeps.
std::unique_ptr<Wire> MakeTlsWire(UniqueFd socket, TlsSession session);

}  // namespace kerf::door
