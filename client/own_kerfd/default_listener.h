// Who listens at the address at which kerfd does by default, where any user of the machine may
// (docs/adr/0031-a-kerfd-of-ones-own.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>

namespace kerf::agent {

struct Listener {
  enum class Kind {
    kNone,
    // Root, a user of the system (as services have), or the process' own: files may be shown to it.
    kTrusted,
    kStranger,
  };

  Kind kind = Kind::kNone;
  // Of a stranger.
  uid_t user = 0;
};

// Of 127.0.0.1:`port`, by what the system tells of sockets; where it tells nothing it is none.
// Makes no connection. Thread-safe.
Listener FindListener(std::uint16_t port);

// The same by what /proc/net/tcp and /proc/net/tcp6 say, to user `self`. For tests.
Listener FindListener(std::istream& tcp, std::istream& tcp6, std::uint16_t port, uid_t self);

}  // namespace kerf::agent
