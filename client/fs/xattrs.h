// Extended attributes, POSIX ACLs (system.posix_acl_*) and capabilities included.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/fs/node.h"

namespace kerf::agent {

// Replaces `xattrs` by those of `path` itself (a symlink is not followed), sorted by name. A file
// system without extended attributes has none. An attribute that vanishes meanwhile is left out.
// The error names the path. Thread-safe.
absl::Status ReadXattrs(const std::string& path, std::vector<Xattr>& xattrs);

// The same for the open file `fd`; `path` is for messages.
absl::Status ReadXattrs(int fd, const std::string& path, std::vector<Xattr>& xattrs);

}  // namespace kerf::agent
