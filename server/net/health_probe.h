// A health call to a gRPC server, as a client makes it, without gRPC: kerfd asks itself so, and
// gRPC's clients (1.51) do not stand it to be made and to go all the time in a process that ends.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "absl/status/status.h"

namespace kerf {

class TlsContext;

// Connects to `address` (as GrpcListener::addresses gives it), and waits for the beginning of an
// answer, whatever it says, for at most `timeout`, or until it is stopped: then with Cancelled.
// Unavailable: why there is none. `tls` is a client's, for all but unix sockets, null: in the
// clear; whose certificate the server shows is not asked.
absl::Status ProbeHealth(const std::string& address, std::chrono::milliseconds timeout,
                         const std::stop_token& stop, const TlsContext* tls = nullptr);

}  // namespace kerf
