// Snapshots that were forgotten and can still be brought back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// Ids of those that were forgotten longer ago than this, by the clock of the store's file system
// alone. At 0 all. None that is pinned.
absl::StatusOr<std::vector<std::string>> ExpiredForgotten(const Store& store,
                                                          std::int64_t max_age_s);

// Nobody can bring it back from now on. Durable on return; OK if it is not there.
absl::Status PurgeForgotten(const Store& store, const std::string& id);

}  // namespace kerf::agent
