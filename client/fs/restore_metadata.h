// Gives a restored node its owner, mode, extended attributes and times.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/fs/node.h"

namespace kerf::agent {

struct MetadataResult {
  // The first failure; the rest was tried all the same.
  absl::Status status;
  // Something needed root, and this process is not root.
  bool unprivileged = false;
};

// Of an open file or directory. Its own mode before the call must let its owner write.
MetadataResult ApplyMetadata(int fd, const Node& node);

// Of anything else: the child `name` of the directory, which may be a symlink and is not followed.
MetadataResult ApplyMetadataAt(int directory_fd, const std::string& name, const Node& node);

}  // namespace kerf::agent
