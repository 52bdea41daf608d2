// Makes one node in an open directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "client/fs/content_sum.h"
#include "client/fs/node.h"
#include "client/fs/restorer.h"

namespace kerf::agent {

// A file with its whole content, and as many of its attributes as could be set, but without its
// time.
struct UnsettledFile {
  // Writable; readable too, if a sum was asked for.
  UniqueFd fd;
  // In the node's directory: that of the node, or if it is to replace something another one.
  std::string name;
  ContentSum::Value sum{};
  // One was refused, and that was reported: then the file is not as the snapshot's, and never gets
  // its time, by which it would be taken for that (docs/adr/0017-restoring.md).
  bool lacks_attributes = false;
};

struct NodeOutcome {
  // AlreadyExists if something stands in the way and the policy says so.
  absl::Status status;
  // The node is there, with its whole content; `status` may still say that metadata is missing.
  bool restored = false;
  // Left as it was, by policy.
  bool skipped = false;
  bool unprivileged = false;
  std::uint64_t written_bytes = 0;
  // Of a regular file that is restored: who settles it gives it its time, and its name.
  std::optional<UnsettledFile> file;
};

// Anything but a directory or a hard link. `content` may be null for what has none. `with_sum`: of
// the content of a file.
NodeOutcome RestoreNode(int directory_fd, const Node& node, FileContent* content,
                        OverwritePolicy policy, bool with_sum);

// Gives `source_name`, which must be of the node's kind, the further name of `node`.
NodeOutcome RestoreHardLink(int source_directory_fd, const std::string& source_name,
                            int directory_fd, const Node& node, OverwritePolicy policy);

// Makes the directory with mode 0700, or enters one that exists, makes it writable for its owner
// and restricts it to what the node lets in. Readable.
absl::StatusOr<UniqueFd> RestoreDirectory(int parent_fd, const Node& node, OverwritePolicy policy);

}  // namespace kerf::agent
