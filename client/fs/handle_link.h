// What a handle stands for that was opened with O_PATH, for calls that take no such handle: its
// link in /proc, which leads to the very inode, whatever has its name by now. Where /proc cannot be
// used, newer kernels have other calls for some of it.
#pragma once

#include <sys/stat.h>

#include <array>
#include <ctime>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kerf::agent {

std::string LinkOfHandle(int handle);

// Whether such a link leads nowhere: there is no /proc, as in a chroot, or nobody may go there, as
// with a mask over it in a container. Else what the link says is said of what the handle stands
// for.
bool IsOutOfReach(const std::string& link);

// "cannot open /x: Permission denied"; of a link that is out of reach FailedPrecondition, and what
// to do about it. `error` is what a call by the link has said.
absl::Status HandleError(int handle, int error, std::string_view action, std::string_view path);

// chmod and utimensat. Return what these return, and errno; neither is to be called for a symlink.
int ChangeModeOfHandle(int handle, mode_t mode);
int ChangeTimesOfHandle(int handle, const std::array<timespec, 2>& times);

}  // namespace kerf::agent
