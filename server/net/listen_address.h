// Where kerfd listens: "unix:PATH" or "HOST:PORT".
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf {

struct ListenAddress {
  bool is_unix = false;
  // Of a unix socket.
  std::string path;
  // As gRPC takes it.
  std::string target;
};

// InvalidArgument says how an address is written. Port 0 picks a free one.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

// Whether nobody but this machine can reach it, as far as its text says: "localhost", or an address
// of loopback.
bool IsLoopback(const ListenAddress& address);

// Makes way for a unix socket at `path`: removes the socket file of a server that is gone.
// FailedPrecondition if a live server listens there or the file is no socket.
absl::Status PrepareUnixSocket(const std::string& path);

}  // namespace kerf
