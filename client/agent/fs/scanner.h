// Walks the trees that a backup is about.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/fs/exclude.h"
#include "client/agent/fs/node.h"

namespace kerf::agent {

struct ScannedNode {
  // Everything but `sparse` and `extents`, which only reading tells (file_source.h).
  Node node;
  NodeIdentity identity;
};

struct ScanOptions {
  // The given roots themselves are never excluded.
  ExcludePatterns excludes;
  // Stays on the file systems of the roots: other mount points are emitted, but not what is in
  // them.
  bool one_file_system = false;
  // Directories that are left out with all that is in them, however they are reached: the store
  // itself. One that does not exist does not count.
  std::vector<std::string> skip_directories;
  // false leaves Node::xattrs empty: for a caller who reads them only where the ctime has changed
  // (ReadXattrs; setting an attribute changes the ctime).
  bool read_xattrs = true;
  // Called in the thread of Next() for every entry that could not be read, with its absolute path:
  // PermissionDenied, NotFound (it vanished), ... The walk goes on. A directory that cannot be
  // listed is emitted and then reported.
  std::function<void(const std::string& path, const absl::Status& status)> on_error;
};

// Emits nodes depth first, a directory before its children, children in byte order of their names
// (ComparePaths). The parents of a root come first, as directories without their other children.
// Roots may repeat and may lie inside each other; every path is emitted once. Of several names of
// one regular file the first has the content, the later ones point to it by hard_link_to.
//
// Follows no symlink inside a tree. Symlinks among the parents of a root are resolved, so that all
// parents are directories; a root that is a symlink is backed up as a symlink, or with a '/' at its
// end as the directory that it points to.
//
// Holds a bounded number of open directories, whatever the depth. Not thread-safe.
class Scanner {
 public:
  virtual ~Scanner() = default;

  // False at the end. Reuses the memory of `scanned`.
  virtual bool Next(ScannedNode& scanned) = 0;

  // Tells that a node with content was not stored after all (it could not be read): the next name
  // of the same file, if any is still to come, is emitted with content.
  virtual void ForgetHardLink(const NodeIdentity& identity) = 0;
};

// Where a root lies: absolute, all its parents directories (symlinks among them resolved, as the
// kernel does), without "." and ".."; "/" for the root of the file system. NotFound, ... as from
// realpath(3) and lstat(2); InvalidArgument if it is empty.
absl::StatusOr<std::string> ResolveRoot(const std::string& root);

// Roots are relative to the working directory or absolute. A root that does not exist or cannot be
// reached is reported through on_error; if that is true for all of them, the first error is
// returned. InvalidArgument if there is none.
absl::StatusOr<std::unique_ptr<Scanner>> MakeScanner(const std::vector<std::string>& roots,
                                                     ScanOptions options);

// Looks again at a file that was replaced after the scan: all of `scanned` but its path becomes
// that of what is there now. FailedPrecondition if that is no regular file or has several names;
// NotFound,
// ... as from open(2) and stat(2).
absl::Status RescanFile(ScannedNode& scanned);

// The path of a node as the scanned machine knows it: with '/' in front.
std::string AbsolutePath(const std::string& node_path);

}  // namespace kerf::agent
