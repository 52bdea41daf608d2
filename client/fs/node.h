// One file, directory or other thing of a file system, as a snapshot remembers it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::agent {

// The values are stored: never renumber them.
enum class NodeKind : std::uint8_t {
  kFile = 1,
  kDirectory = 2,
  kSymlink = 3,
  kFifo = 4,
  kSocket = 5,
  kCharDevice = 6,
  kBlockDevice = 7,
};

struct Xattr {
  std::string name;
  std::string value;

  friend bool operator==(const Xattr&, const Xattr&) = default;
};

struct Timestamp {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;

  friend auto operator<=>(const Timestamp&, const Timestamp&) = default;
};

// A run of bytes of a file; between the extents of a sparse file are holes, which read as zeros.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length_bytes = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

// What tells an unchanged file from a changed one; never restored, and kept apart from the node so
// that a copy of a tree has the same metadata stream as the tree.
struct NodeIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  Timestamp changed;  // ctime

  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

// A plain value. Names and targets are bytes as the kernel gives them, in no particular encoding.
struct Node {
  // Relative to the root of the snapshot, without a leading '/', components separated by single
  // '/'.
  std::string path;
  NodeKind kind = NodeKind::kFile;
  // Permission, set-id and sticky bits: st_mode & 07777.
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  // Names of the owner at the time of the backup; empty if there were none.
  std::string user;
  std::string group;
  Timestamp modified;  // mtime
  // Files only: the size that stat shows, holes included.
  std::uint64_t size_bytes = 0;
  // Files only: if true, the content is that of `extents` one after the other, all else is hole.
  bool sparse = false;
  std::vector<Extent> extents;
  // Path of the earlier node of the same snapshot that is the same inode, never a directory; then
  // this node has no content of its own. Empty otherwise.
  std::string hard_link_to;
  // Symlinks only.
  std::string link_target;
  // Devices only: st_rdev.
  std::uint64_t device_number = 0;
  // Sorted by name.
  std::vector<Xattr> xattrs;

  friend bool operator==(const Node&, const Node&) = default;
};

}  // namespace kerf::agent
