// Reaching a kerfd.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"

namespace kerf::client {

// Where the agent looks for a kerfd unless it is told otherwise: kerfd's own default.
inline constexpr std::string_view kDefaultServer = "127.0.0.1:7461";

// A channel to `server`, "unix:PATH" or "HOST:PORT", with a connection of its own: two channels do
// not share one. It connects when it is first used. InvalidArgument for any other form.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(std::string_view server);

// The only place where a gRPC status becomes an absl::Status. The code stays the same.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace kerf::client
