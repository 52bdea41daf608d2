// Walks the trees that a backup is about, ahead of who asks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/fs/node.h"
#include "client/fs/tree_walk.h"

namespace kerf::agent {

// Emits nodes depth first, a directory before its children, children in byte order of their names
// (ComparePaths). The parents of a root come first, as directories without their other children.
// Roots may repeat and may lie inside each other; every path is emitted once. Of several names of
// one file (or symlink, fifo, socket, device) the first is a node of its own, the later ones point
// to it by hard_link_to. Where it is not certain that it is the same file (incarnation.h), they are
// nodes of their own too.
//
// Follows no symlink inside a tree. Symlinks among the parents of a root are resolved, so that all
// parents are directories; a root that is a symlink is backed up as a symlink, or with a '/' at its
// end as the directory that it points to.
//
// A thread of its own walks ahead, a bounded number of nodes; on_error is called in the thread of
// Next() all the same. Holds a bounded number of open directories, whatever the depth. Not
// thread-safe.
class Scanner {
 public:
  virtual ~Scanner() = default;

  // False at the end. Reuses the memory of `scanned`.
  virtual bool Next(ScannedNode& scanned) = 0;

  // Tells that a node was not stored after all (it could not be read): the next name of the same
  // file, if any is still to come, is a node of its own.
  virtual void ForgetHardLink(const NodeIdentity& identity) = 0;
};

// Roots are relative to the working directory or absolute. A root that does not exist or cannot be
// reached is reported through on_error; if that is true for all of them, the first error is
// returned. InvalidArgument if there is none.
absl::StatusOr<std::unique_ptr<Scanner>> MakeScanner(const std::vector<std::string>& roots,
                                                     ScanOptions options);

}  // namespace kerf::agent
