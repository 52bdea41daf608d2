// Calls of the Index and Repository services, as far as they have something in common.
#pragma once

#include <chrono>
#include <functional>

#include "absl/status/status.h"
#include "client/cpp/call_cancellation.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace kerf::client {

// Makes a call, which `ask` does with a context that has a request id and a deadline of a minute.
// Where the server has no room for it now (HasNoRoomNow), waits and asks once more, for `patience`
// at most: for as long as it says where that is a quota, of which it knows when there is some
// again; else longer each time, at random, and as long as it says at least. The error is the
// server's, with the request id. A `cancellation` ends call and wait; null: nobody does.
absl::Status CallPatiently(CallCancellation* cancellation, std::chrono::milliseconds patience,
                           const std::function<grpc::Status(grpc::ClientContext& context)>& ask);

}  // namespace kerf::client
