// The walk over the trees that a backup is about: what scanner.h runs ahead in a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/fs/exclude.h"
#include "client/fs/incarnation.h"
#include "client/fs/node.h"

namespace kerf::agent {

struct ScannedNode {
  // Everything but `sparse` and `extents`, which only reading tells (file_source.h).
  Node node;
  NodeIdentity identity;
  // Further names of it, hard links: 0 of a directory.
  std::uint64_t other_name_count = 0;
  // Of what has some.
  Incarnation incarnation;
  // An earlier node that may be the same file, or may have had its number and be gone. Set by the
  // scanner, in place of hard_link_to: if both hold the same it does not matter which it is.
  std::string may_be_link_to;
};

struct ScanOptions {
  // The given roots themselves are never excluded.
  ExcludePatterns excludes;
  // Stays on the file systems of the roots: other mount points are emitted, but not what is in
  // them.
  bool one_file_system = false;
  // Also goes below a root into file systems whose files the kernel makes up
  // (pseudo_file_system.h): else their mount points are emitted, but not what is in them.
  bool pseudo_file_systems = false;
  // Directories that are left out with all that is in them, however they are reached: the store
  // itself. One that does not exist does not count.
  std::vector<std::string> skip_directories;
  // false leaves Node::xattrs empty: for a caller who reads them only where the ctime has changed
  // (ReadXattrs; setting an attribute changes the ctime).
  bool read_xattrs = true;
  // Threads that look into directories ahead of the walk where these have to be read from a disk.
  // What is emitted is the same with any number of them.
  unsigned ahead_thread_count = 0;
  // Looks ahead also where all is in memory: tests only.
  bool always_looks_ahead = false;
  // Called for every directory that is left out, or emitted without what is in it, for another
  // reason than `excludes`: with its node path, from the thread that walks.
  std::function<void(const std::string& node_path)> on_left_out;
  // Beside it, for mount points of such file systems.
  std::function<void(const std::string& node_path)> on_pseudo = {};
  // Called by Next(), in its thread, for every entry that could not be read, with its absolute
  // path: PermissionDenied, NotFound (it vanished), ... The walk goes on. A directory that cannot
  // be listed is emitted and then reported.
  std::function<void(const std::string& path, const absl::Status& status)> on_error;
};

// Emits nodes in the order and by the rules of Scanner, each name of a file as if it were the only
// one. Not thread-safe.
class TreeWalk {
 public:
  virtual ~TreeWalk() = default;

  // False at the end. Reuses the memory of `scanned`.
  virtual bool Next(ScannedNode& scanned) = 0;
};

// As MakeScanner.
absl::StatusOr<std::unique_ptr<TreeWalk>> OpenTreeWalk(const std::vector<std::string>& roots,
                                                       ScanOptions options);

// Where a root lies: absolute, all its parents directories (symlinks among them resolved, as the
// kernel does), without "." and ".."; "/" for the root of the file system. NotFound, ... as from
// realpath(3) and lstat(2); InvalidArgument if it is empty.
absl::StatusOr<std::string> ResolveRoot(const std::string& root);

// The path of a node as the scanned machine knows it: with '/' in front.
std::string AbsolutePath(const std::string& node_path);

}  // namespace kerf::agent
