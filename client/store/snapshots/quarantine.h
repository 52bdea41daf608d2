// Where a store keeps what is damaged and no longer used: kerf never deletes it.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace kerf::agent {

// Moves a file of the store into its folder quarantine/, durably, and returns where it is now: its
// path in the store with '-' for '/', and a number behind it if that name is taken. NotFound if it
// is not there. One call at a time in a store: collections and repairs hold the collector's lock.
absl::StatusOr<std::string> MoveToQuarantine(const std::string& store_directory,
                                             const std::string& path);

// The same, and the file keeps its place as well: something is about to replace it there.
// Unimplemented or PermissionDenied where the file system has no hard links.
absl::StatusOr<std::string> LinkToQuarantine(const std::string& store_directory,
                                             const std::string& path);

// The same for a snapshot, of which the note goes first, so that nobody misses it. What ends in
// between leaves a snapshot without its note, which gets one again. Returns "" if only the note was
// there.
absl::StatusOr<std::string> QuarantineSnapshot(const std::string& store_directory,
                                               const std::string& id);

}  // namespace kerf::agent
