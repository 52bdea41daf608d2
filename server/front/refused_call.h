// The answer to a streaming call that is not taken.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string_view>

#include "absl/status/status.h"
#include "server/errors/errors.h"
#include "server/front/grpc_status.h"

namespace kerf {

// Deletes itself.
class RefusedCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RefusedCall(const absl::Status& status, std::string_view request_id) {
    Finish(ToGrpcStatus(WithRequestId(status, request_id)));
  }
  void OnDone() override { delete this; }
};

}  // namespace kerf
