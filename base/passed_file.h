// One descriptor that goes over a unix socket, from one process to another.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf {

// Sends `bytes`, at least one, and with them `fd`, which stays the caller's. Unavailable: nobody
// takes them.
absl::Status SendFile(int socket, std::span<const std::uint8_t> bytes, int fd);

// What was sent so, if it is there: exactly `bytes.size()` bytes, with exactly one descriptor. It
// does not wait. InvalidArgument for anything else, whatever came of descriptors is closed, and the
// socket is of no more use; Unavailable: nothing is there (yet), or it has ended.
absl::StatusOr<UniqueFd> ReceiveFile(int socket, std::span<std::uint8_t> bytes);

// The user of the other end, as he was when it was connected. Errors are the system's.
absl::StatusOr<uid_t> UserOfPeer(int socket);

}  // namespace kerf
