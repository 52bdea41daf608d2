// Gives a restored node its owner, mode, extended attributes and time.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/fs/node.h"

namespace kerf::agent {

struct MetadataResult {
  // The first failure; the rest was tried all the same. What has one is not to get its time.
  absl::Status status;
  // Something needed root, and this process is not root. No failure: it would be one again each
  // time, and nothing that an ordinary user restores would ever be complete.
  bool unprivileged = false;
};

// Exactly what the node has, and nothing more, as a default ACL of the directory may have given it:
// owner, extended attributes, mode. At no moment does it let in who the node does not: its mode
// before the call must let nobody but its owner in, and let that one write.
MetadataResult ApplyAttributes(int fd, const Node& node);

// The time of an open file or directory; comes last, as every other change sets it, and as whoever
// looks at it takes the node for complete.
absl::Status ApplyTime(int fd, const Node& node);

// Of an open file that lacks something: gives it another time if by chance (a coarse clock, one
// that was set back) it was written at that of the node. Looking unchanged it would be passed over.
absl::Status AvoidTime(int fd, const Node& node);

// Both, of anything but a file or directory: the child `name` of the directory, which may be a
// symlink and is not followed. The time only if all else could be set. FailedPrecondition, and
// nothing is changed, if something else than was made as `node` has that name by now.
MetadataResult ApplyMetadataAt(int directory_fd, const std::string& name, const Node& node);

// Makes a directory that is there let in nobody whom the node does not, until it is complete: takes
// away the rights that the node does not give, and ACLs, which whatever is made in it would
// inherit. Rights of its owner are left.
absl::Status RestrictDirectory(int fd, const Node& node);

}  // namespace kerf::agent
