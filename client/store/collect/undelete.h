// Brings back a snapshot that was forgotten.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// The id of the one among those that were forgotten whose id begins with `name`. NotFound, or
// InvalidArgument if several do.
absl::StatusOr<std::string> FindForgotten(const Store& store, const std::string& name);

// As a backup publishes its snapshot: as pending first, then checked against collections. DataLoss
// if collections have taken something of it; then it stays forgotten. OK if another one has brought
// it back meanwhile. Cancelled, and it stays forgotten, soon after `is_cancelled`, which any thread
// may ask; empty: nobody ends it.
absl::Status Undelete(const Store& store, const std::string& id,
                      const std::function<bool()>& is_cancelled = nullptr);

}  // namespace kerf::agent
