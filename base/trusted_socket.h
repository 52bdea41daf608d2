// A unix socket to which a secret may be shown. Whoever makes a socket at a path that is free gets
// what is sent there: so it is looked at who that is, and what is connected to is what was looked
// at, however soon another one stands at the path.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/unique_fd.h"

namespace kerf {

// Thread-safe. Needs /proc.
class TrustedSocket {
 public:
  // Root, the process' own user and `other` are trusted. There need be nothing at `path` yet.
  TrustedSocket(std::string path, std::optional<uid_t> other);
  TrustedSocket(const TrustedSocket&) = delete;
  TrustedSocket& operator=(const TrustedSocket&) = delete;

  // A path to connect to, as often as one likes while this lives. It leads to the last socket that
  // Look has found and that is a trusted user's; until there is one, connections are refused.
  const std::string& target() const { return target_; }

  // What is at the path now. OK: it is a trusted user's, or nobody listens there. Unauthenticated:
  // it is somebody else's. Other errors: the system lets nobody see who that is.
  absl::Status Look();

 private:
  const std::string path_;
  const std::optional<uid_t> other_;
  const uid_t own_;
  std::mutex mutex_;
  // Behind `target_`; each socket takes the number of the one before.
  const UniqueFd held_;
  const std::string target_;
  bool has_socket_ = false;
};

// Of an address "unix:PATH" or "unix:///PATH".
std::string SocketPathOf(std::string_view address);

}  // namespace kerf
