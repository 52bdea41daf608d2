// Files that somebody else writes, and that are read whole: settings, certificates.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace kerf {

// The errors of open and read name the file; InvalidArgument for one of more than `max_bytes`, and
// for what is no regular file: of a pipe nobody can tell whether it is empty or not written yet,
// and what was read of it is gone. Never waits for whoever may write to it.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, std::size_t max_bytes);

// Whether every user of this machine can read the file, or change it: its own mode lets him, and so
// do those of all folders above it. False for one of which nobody can tell.
bool IsOpenToAll(const std::string& path);

}  // namespace kerf
