// Opens what a node's path names, so that nobody who swaps names meanwhile makes it open anything
// else: no device is ever touched, no fifo's writer woken, nothing mounted on demand.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf::agent {

// Stands for what has the path now (O_PATH), be it a symlink, and opens nothing. No symlink on the
// way is followed: FailedPrecondition, as where a directory on the way is none any more.
absl::StatusOr<UniqueFd> HandleOfNode(const std::string& node_path);

enum class OpenFor {
  // Another's lease on the file is waited for: it must give it back, which the kernel sees to
  // (fcntl(2), F_SETLEASE; /proc/sys/fs/lease-break-time). Where a server of files has put another
  // one in its place, what has the name is opened.
  kReading,
  // Waits for nobody, and opens nothing by a name: without it all goes on as well.
  kHint,
};

// Opens the regular file that `handle` stands for, which was asked for by this path, for reading,
// and leaves its access time alone where the kernel permits. FailedPrecondition if it is none.
// Where /proc cannot be used, through which a handle is opened, it is opened by its path, no
// symlink followed: what came to have that name a moment ago would be opened in its place, though
// not waited for, nor read if it is no regular file.
absl::StatusOr<UniqueFd> OpenFileOf(const UniqueFd& handle, const std::string& node_path,
                                    OpenFor purpose);

}  // namespace kerf::agent
