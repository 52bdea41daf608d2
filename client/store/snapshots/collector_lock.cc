#include "client/store/snapshots/collector_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "base/strings.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {

absl::StatusOr<UniqueFd> LockCollector(const std::string& store_directory) {
  const std::string path = Cat(store_directory, "/locks/gc");
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoStatus(errno, path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, path);
    return absl::FailedPreconditionError(
        Cat(store_directory, ": another collection is running, or a `kerf index rebuild` or ",
            "`kerf repair`; wait until it is done"));
  }
  return lock;
}

}  // namespace kerf::agent
