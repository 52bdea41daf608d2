// kerfd --role=front, from its start to its end.
#pragma once

#include "absl/status/status.h"
#include "server/settings/settings.h"

namespace kerf {

// Returns when the process was told to stop. InvalidArgument and FailedPrecondition as
// FrontServer::Start says them.
absl::Status ServeFront(const Settings& settings);

}  // namespace kerf
