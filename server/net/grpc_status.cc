#include "server/net/grpc_status.h"

#include <string>

#include "base/strings.h"
#include "server/errors/errors.h"

namespace kerf {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // Only kerf's own errors reach a client with another code than INTERNAL.
  const absl::StatusCode code =
      ReasonNameOf(status).empty() ? absl::StatusCode::kInternal : status.code();
  return {static_cast<grpc::StatusCode>(code), std::string(MessageOf(status)),
          EncodeStatusDetails(status)};
}

}  // namespace kerf
