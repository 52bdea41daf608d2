// The answer to a unary call that is not taken.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "server/errors/errors.h"
#include "server/net/grpc_status.h"
#include "server/net/request_id_of.h"

namespace kerf {

// Ends the call; what it gives is to be returned to gRPC.
inline grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext& context,
                                        const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  reactor->Finish(ToGrpcStatus(WithRequestId(status, RequestIdOf(context))));
  return reactor;
}

}  // namespace kerf
