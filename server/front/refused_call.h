// The answer to a streaming call that is not taken.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "server/front/grpc_status.h"

namespace kerf {

// Deletes itself.
class RefusedCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedCall(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace kerf
