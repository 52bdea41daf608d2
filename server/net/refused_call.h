// The answer to a streaming call that is not taken.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/logging/logging.h"
#include "server/net/grpc_status.h"

namespace kerf {

// Deletes itself.
class RefusedCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RefusedCall(const absl::Status& status, std::string_view request_id) {
    // Not above: whoever is refused may come again at once.
    if (IsLogged(LogLevel::kDebug)) {
      Log(LogLevel::kDebug, Cat("call refused: ", MessageOf(status)),
          {{"request_id", std::string(request_id)}, {"reason", ReasonNameOf(status)}});
    }
    Finish(ToGrpcStatus(WithRequestId(status, request_id)));
  }
  void OnDone() override { delete this; }
};

}  // namespace kerf
