// Locks of files (flock(2)), which end with whoever holds them, however he ends.
#pragma once

#include <sys/file.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf {

// LOCK_SH or LOCK_EX of an open file, without waiting: whether it is had from now on; false: others
// hold it. Of what is open, not of the process: who inherits it holds it, too. Errors are those of
// the system, as of a file system that knows no locks. Thread-safe.
inline absl::StatusOr<bool> TryLock(int fd, int operation) {
  int result = 0;
  do {
    result = flock(fd, operation | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return absl::ErrnoToStatus(errno, "cannot lock a file");
}

}  // namespace kerf
