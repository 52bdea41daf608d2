// Whether it is TLS that is wrong between a client and a server, or whose socket it is: gRPC says
// little of the former, and nothing of the latter.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/cpp/call_cancellation.h"
#include "client/cpp/server_address.h"

namespace kerf::client {

// Meets the server at `server`, one "HOST:PORT", as a client with `tls` does, by a connection of
// its own. TlsTrouble says what is wrong, and what to do; so it does of a socket, "unix:PATH", to
// which the token is not shown. OK: it is neither, or nobody can say.
// Takes some seconds at most, and ends sooner with a cancellation; null: nobody ends it.
absl::Status CheckTls(const std::string& server, const TlsChoice& tls,
                      const CallCancellation* cancellation);

// Of a call to one of `servers`, "HOST:PORT,..." that ended with `status`, which is returned unless
// TLS may be why, and CheckTls knows better of one of them.
absl::Status ExplainByTls(const absl::Status& status, const ServerAddress& servers,
                          const CallCancellation* cancellation);

}  // namespace kerf::client
