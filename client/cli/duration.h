// Times as people write them.
#pragma once

#include <chrono>
#include <string_view>

#include "absl/status/statusor.h"

namespace kerf::agent {

// "500ms", "90s", "5m", "1.5h", "7d" (of 24 hours) or "0"; a number above 0 needs a unit. At most a
// year. InvalidArgument says what is wrong with anything else.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);

}  // namespace kerf::agent
