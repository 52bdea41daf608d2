// A file as long as it lives: its inode's number belongs to another one when it is gone.
#pragma once

#include <sys/stat.h>

#include <string>

#include "client/fs/node.h"
#include "client/fs/stamp_clock.h"

namespace kerf::agent {

struct Incarnation {
  NodeIdentity identity;
  // What the kernel tells inodes of one number apart by (name_to_handle_at(2)); empty where there
  // is no such thing, or it is not to be relied upon.
  std::string handle;
  // The ctime was settled when it was seen: whoever has the number and that ctime later is it.
  bool is_settled = false;
};

// Of the open file (O_PATH is enough) that `status` is of; `now` was read from StampClockNow()
// before that.
Incarnation IncarnationOf(int fd, const struct stat& status, const Timestamp& now);

// Whether IsSameFile can be true of it and what is seen later.
inline bool CanBeProven(const Incarnation& earlier) {
  return earlier.is_settled || !earlier.handle.empty();
}

// Whether it may be, for all that device, inode and ctime tell.
bool MayBeSameFile(const Incarnation& earlier, const Incarnation& later);

// True only if it is certain that what was seen as `later` is the same file. `earlier` was seen
// first.
bool IsSameFile(const Incarnation& earlier, const Incarnation& later);

}  // namespace kerf::agent
