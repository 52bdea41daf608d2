// errno as a Status.
#pragma once

#include <cerrno>
#include <string_view>

#include "absl/status/status.h"
#include "base/strings.h"

namespace kerf::agent {

// "cannot open /x: Permission denied" with the canonical code of `error`; `action` is "cannot
// open". But ResourceExhausted is a disk without room, or a quota of it, and nothing else: what
// Abseil calls so beside it, as too many open files or links, is Unknown.
inline absl::Status OsError(int error, std::string_view action, std::string_view path) {
  absl::Status status = absl::ErrnoToStatus(error, ToAbsl(Cat(action, " ", path)));
  if (!absl::IsResourceExhausted(status) || error == ENOSPC || error == EDQUOT) return status;
  return absl::UnknownError(status.message());
}

}  // namespace kerf::agent
