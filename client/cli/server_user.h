// `--server-user`: whom a token is shown to beside root and oneself.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace kerf::agent {

// Of a name or a number. InvalidArgument: this machine knows no such user, or he may be anybody
// (base/overflow_user.h).
absl::StatusOr<uid_t> ServerUserOf(const std::string& user);

}  // namespace kerf::agent
