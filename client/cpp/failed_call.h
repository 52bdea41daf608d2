// Which call it was that failed: the word by which the logs of fronts and workers know it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kerf::client {

// The same status, which knows the id (base/request_id.h) of the call that it ended; one that knows
// one already keeps it, and OK has none.
absl::Status WithRequestId(const absl::Status& status, std::string_view request_id);

// Empty: it is of no call.
std::string RequestIdOf(const absl::Status& status);

}  // namespace kerf::client
