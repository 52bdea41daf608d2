// Files that somebody else writes, and that are read whole: settings, certificates.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace kerf {

// The errors of open and read name the file; InvalidArgument for one of more than `max_bytes`.
// Never waits for whoever may write to it.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, std::size_t max_bytes);

}  // namespace kerf
