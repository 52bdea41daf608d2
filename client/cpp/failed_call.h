// What a call that failed is known by: the word by which the logs of fronts and workers know it,
// and whether it was this side that gave it up.
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

// Internal: what a server has answered is not of the protocol. No status of a server's, nor one of
// gRPC's, is like it.
absl::Status WrongAnswer(std::string_view why);
// The same of another code.
absl::Status AsWrongAnswer(absl::Status status);
bool IsWrongAnswer(const absl::Status& status);

}  // namespace kerf::client
