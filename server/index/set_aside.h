// A damaged index, put where it does no harm and can be looked at.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace kerf {

// Renames `folder`/`name`, which nobody has open, to `folder`/`name`.damaged-TIME, durably; returns
// the new path. Of earlier ones those that are newest stay, so that there are `kept_count` in all.
// TIME is that of the machine's clock, which may have been set meanwhile.
absl::StatusOr<std::string> SetAside(const std::string& folder, const std::string& name,
                                     int kept_count);

}  // namespace kerf
