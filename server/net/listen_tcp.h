// Sockets that listen for TCP.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf {

struct TcpListeners {
  // One for each address that the host has, all with the same port. They do not block.
  std::vector<UniqueFd> sockets;
  // HOST:PORT, with the port that was picked.
  std::string address;
};

// `target` is HOST:PORT, as ParseListenAddress takes it; port 0 picks a free one. A host of 0.0.0.0
// or [::] stands for all of the machine's addresses, IPv4 and IPv6. FailedPrecondition, with what
// the system says, for one that cannot be had.
absl::StatusOr<TcpListeners> ListenTcp(const std::string& target);

}  // namespace kerf
