// A unix socket to which a secret may be shown. Whoever makes a socket at a path that is free gets
// what is sent there: so it is looked at who that is, and what is connected to is what was looked
// at, however soon another one stands at the path.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/unique_fd.h"

namespace kerf {

// Thread-safe. Needs /proc, through whose links it connects: without it connections are refused.
class TrustedSocket {
 public:
  // Root, the process' own user and `other` are trusted. There need be nothing at `path` yet. A
  // look waits for `patience` at most at a socket that has as many connections waiting as it may
  // have.
  TrustedSocket(std::string path, std::optional<uid_t> other,
                std::chrono::milliseconds patience = std::chrono::seconds(3));
  TrustedSocket(const TrustedSocket&) = delete;
  TrustedSocket& operator=(const TrustedSocket&) = delete;

  // A path to connect to, as often as one likes while this lives. It leads to the last socket that
  // Look has found and that is a trusted user's; until there is one, connections are refused. The
  // same for good once Look has ended with anything but ResourceExhausted.
  std::string target() const;

  // What is at the path now. OK: it is a trusted user's, or nobody listens there, or takes anybody
  // now. Unauthenticated: it is somebody else's. FailedPrecondition: it is a user's who may be
  // anybody (MayBeAnybody), though that were the number of one who is trusted. ResourceExhausted:
  // no file can be opened now. Other errors: the system lets nobody see who that is, as without
  // /proc.
  absl::Status Look();

 private:
  const std::string path_;
  const std::optional<uid_t> other_;
  const uid_t own_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  // Behind target(); each socket takes the number of the one before. Not valid: there was no room
  // for it yet.
  UniqueFd held_;
  bool has_socket_ = false;
};

// Of an address "unix:PATH" or "unix:///PATH".
std::string SocketPathOf(std::string_view address);

}  // namespace kerf
