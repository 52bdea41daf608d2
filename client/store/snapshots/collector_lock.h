// One at a time deletes from a store or raises its epoch.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf::agent {

// FailedPrecondition if somebody else holds it. It is held for as long as the descriptor is open.
absl::StatusOr<UniqueFd> LockCollector(const std::string& store_directory);

}  // namespace kerf::agent
