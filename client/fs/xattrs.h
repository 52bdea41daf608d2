// Extended attributes, POSIX ACLs (system.posix_acl_*) and capabilities included.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/unique_fd.h"
#include "client/fs/node.h"

namespace kerf::agent {

// Calls `list(data, size)`, as flistxattr, until the answer fits: the names, a NUL behind each.
// Returns an errno, 0 if all went well.
int ListXattrs(const std::function<ssize_t(char* data, std::size_t size)>& list,
               std::string& names);

// Replaces `xattrs` by those of the open file or directory, sorted by name. A file system without
// extended attributes has none. An attribute that vanishes meanwhile is left out. The error names
// the path, which is for messages. Thread-safe.
absl::Status ReadXattrs(int fd, const std::string& path, std::vector<Xattr>& xattrs);

// The same for what `handle`, which was opened with O_PATH, stands for; it may be a symlink itself.
// By no path: what has one may be another thing from one call to the next. Where /proc cannot be
// used, directories and regular files are opened, the latter by their path, which has to lead to
// the same file; of all else it is FailedPrecondition.
absl::Status ReadXattrsOfHandle(const UniqueFd& handle, const std::string& path,
                                std::vector<Xattr>& xattrs);

}  // namespace kerf::agent
