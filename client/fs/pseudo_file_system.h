// File systems that keep nothing: what is in them the kernel makes up as it is asked.
#pragma once

namespace kerf::agent {

// Whether an open directory, or a handle of one, is on such a file system (proc, sysfs, devpts,
// cgroups, debugfs, ...): its files are no content of anybody's, some never end or are never
// answered (/proc/kmsg), and some change what they tell as they are read. Memory that programs keep
// files in (tmpfs, ramfs, hugetlbfs) is none. False if it cannot be told.
bool IsOnPseudoFileSystem(int fd);

}  // namespace kerf::agent
