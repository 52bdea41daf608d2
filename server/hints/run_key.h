// Where a worker's key for sealed runs comes from.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kernels/rapid/run_seal.h"

namespace kerf {

// For a process that shares its runs with nobody. Dies if the system gives no random bytes.
RunKey MakeRandomRunKey();

// The file's content: 32 bytes, of `head -c 32 /dev/urandom`, the same on all workers of one store.
// NotFound, PermissionDenied (also for a file that others than its owner and group may read, or
// others than its owner write), InvalidArgument for one that is no regular file or has another
// length. No message has the key.
absl::StatusOr<RunKey> ReadRunKey(const std::string& path);

}  // namespace kerf
