// Makes one node in an open directory.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "client/fs/node.h"
#include "client/fs/restorer.h"

namespace kerf::agent {

struct NodeOutcome {
  // AlreadyExists if something stands in the way and the policy says so.
  absl::Status status;
  // The node is there, with its whole content; `status` may still say that metadata is missing.
  bool restored = false;
  // Left as it was, by policy.
  bool skipped = false;
  bool unprivileged = false;
  std::uint64_t written_bytes = 0;
};

// Anything but a directory or a hard link. `content` may be null for what has none.
NodeOutcome RestoreNode(int directory_fd, const Node& node, FileContent* content,
                        OverwritePolicy policy);

// Gives the regular file `source_name` the further name of `node`.
NodeOutcome RestoreHardLink(int source_directory_fd, const std::string& source_name,
                            int directory_fd, const Node& node, OverwritePolicy policy);

// Makes the directory with mode 0700, or enters one that exists and makes it writable for its
// owner. Readable.
absl::StatusOr<UniqueFd> RestoreDirectory(int parent_fd, const Node& node, OverwritePolicy policy);

}  // namespace kerf::agent
