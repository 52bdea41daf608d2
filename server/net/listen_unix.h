// A unix socket that listens.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf {

// At `path`, where nothing is (PrepareUnixSocket); it does not block. FailedPrecondition, with what
// the system says, if it cannot be had, InvalidArgument for a path longer than the system takes.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path);

}  // namespace kerf
