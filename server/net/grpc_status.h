// The border between kerf's statuses and gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace kerf {

// With code, message and google.rpc details (server/errors).
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace kerf
