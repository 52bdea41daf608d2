// Reaching a kerfd.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/call_cancellation.h"
#include "client/cpp/server_address.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"

namespace kerf::client {

// Where the agent looks for a kerfd unless it is told otherwise: kerfd's own default.
inline constexpr std::string_view kDefaultServer = "127.0.0.1:7461";

// The servers that `text` names, with commas between them: any of them will do, the first first. At
// least one. InvalidArgument if one has neither form of an address, "unix:PATH" or "HOST:PORT".
absl::StatusOr<std::vector<std::string>> ParseServers(std::string_view text);

// A channel to `server`, "unix:PATH" or "HOST:PORT", in the clear or over TLS as it says, with a
// connection of its own: two channels do not share one. It connects when it is first used. Of
// several servers, with commas between them, it is the first that can be reached within some
// seconds each. InvalidArgument for any other form, and for one to which a token would be shown in
// the clear. Where a token is shown, a unix socket of whoever is not trusted (TlsChoice) is taken
// for one at which nobody listens: ExplainByTls says so. With a `cancellation`, which ends that
// looking for one, too; null: nobody ends it.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const ServerAddress& server, const CallCancellation* cancellation = nullptr);

// The same of each of the servers: first the one that OpenChannel would give, behind it the others
// in their order, and those before it.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> OpenChannels(
    const ServerAddress& server, const CallCancellation* cancellation = nullptr);

// Whether somebody answers within some seconds; that nobody is at the address is known at once.
bool Connects(grpc::Channel& channel, const CallCancellation* cancellation);

// The only place where a gRPC status becomes an absl::Status. The code stays the same, and the
// details that the server sent are its payloads; but a message that is larger than gRPC takes, of
// which it says RESOURCE_EXHAUSTED without details (PRO-63), is a wrong answer (failed_call.h).
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace kerf::client
