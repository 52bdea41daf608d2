// Which server a verb talks to where nobody has named one (docs/adr/0031-a-kerfd-of-ones-own.md).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/context.h"

namespace kerf::agent {

// `--server own`: a kerfd of kerf's own, whatever else there is.
inline constexpr char kOwnServer[] = "own";

// The address at which the kerfd of kerf's own will serve, once StartOwnKerfd has started it.
// FailedPrecondition: the user has no folder for it.
absl::StatusOr<std::string> ChooseOwnKerfd(Context& context);

// The default one, if root, a service or the user listens there; else kerf's own.
absl::StatusOr<std::string> ChooseServer(Context& context);

}  // namespace kerf::agent
