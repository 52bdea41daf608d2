// The folder in which a user's kerf keeps what the kerfd of its own has: the socket, the index, the
// log (docs/adr/0031-a-kerfd-of-ones-own.md).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf::agent {

// $XDG_STATE_HOME/kerf/kerfd, else .local/state/kerf/kerfd in the home of the user: $HOME if that
// is his folder, else the one that the system knows of him. FailedPrecondition: he has none. For
// the first thread.
absl::StatusOr<std::string> OwnKerfdFolder();

struct PrivateFolder {
  UniqueFd fd;
  // It was made just now.
  bool is_new = false;
};

// Opens the folder at `path`, which is absolute; makes it, and those above it, where they are
// missing. Nobody but this user and root may enter it, or put another one in its place.
// FailedPrecondition: that is not so, or it cannot be made or opened; ResourceExhausted: there is
// no room for it. The messages say what to do. Thread-safe.
absl::StatusOr<PrivateFolder> OpenPrivateFolder(const std::string& path);

}  // namespace kerf::agent
