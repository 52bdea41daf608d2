// errno as a Status.
#pragma once

#include <cerrno>
#include <string_view>

#include "absl/status/status.h"
#include "base/strings.h"

namespace kerf::agent {

// "cannot open /x: Permission denied" with the canonical code of `error`; `action` is "cannot
// open".
inline absl::Status OsError(int error, std::string_view action, std::string_view path) {
  return absl::ErrnoToStatus(error, ToAbsl(Cat(action, " ", path)));
}

}  // namespace kerf::agent
