#include "client/fs/incarnation.h"

#include <fcntl.h>

#include <array>

#include "client/fs/node_stat.h"

namespace kerf::agent {
namespace {

std::string HandleOf(int fd) {
  alignas(file_handle) std::array<char, sizeof(file_handle) + MAX_HANDLE_SZ> space{};
  auto* const head = reinterpret_cast<file_handle*>(space.data());
  head->handle_bytes = MAX_HANDLE_SZ;
  int mount_id = 0;
  if (name_to_handle_at(fd, "", head, &mount_id, AT_EMPTY_PATH) != 0) return {};
  // Its type too: that is what the bytes mean.
  return {space.data() + sizeof head->handle_bytes,
          sizeof(file_handle) - sizeof head->handle_bytes + head->handle_bytes};
}

}  // namespace

Incarnation IncarnationOf(int fd, const struct stat& status, const Timestamp& now) {
  Incarnation incarnation;
  incarnation.identity = IdentityOf(status);
  incarnation.is_settled = IsSettledOn(fd, incarnation.identity.changed, now);
  // A program behind FUSE may give a handle again, as it may give a number.
  if (WhoStamps(fd) != StampedBy::kSomebodyElse) incarnation.handle = HandleOf(fd);
  return incarnation;
}

bool MayBeSameFile(const Incarnation& earlier, const Incarnation& later) {
  return earlier.identity == later.identity;
}

bool IsSameFile(const Incarnation& earlier, const Incarnation& later) {
  if (earlier.identity.device != later.identity.device ||
      earlier.identity.inode != later.identity.inode) {
    return false;
  }
  if (!earlier.handle.empty() && earlier.handle == later.handle) return true;
  // One that got the number since has a later ctime.
  return earlier.is_settled && earlier.identity.changed == later.identity.changed;
}

}  // namespace kerf::agent
