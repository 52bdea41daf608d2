#include "client/fs/node_stat.h"

#include <cstdint>

namespace kerf::agent {
namespace {

Timestamp FromTimespec(const timespec& time) {
  return {time.tv_sec, static_cast<std::uint32_t>(time.tv_nsec)};
}

}  // namespace

NodeKind KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return NodeKind::kDirectory;
    case S_IFLNK:
      return NodeKind::kSymlink;
    case S_IFIFO:
      return NodeKind::kFifo;
    case S_IFSOCK:
      return NodeKind::kSocket;
    case S_IFCHR:
      return NodeKind::kCharDevice;
    case S_IFBLK:
      return NodeKind::kBlockDevice;
    default:
      return NodeKind::kFile;
  }
}

Timestamp ModifiedOf(const struct stat& status) { return FromTimespec(status.st_mtim); }

NodeIdentity IdentityOf(const struct stat& status) {
  return {status.st_dev, status.st_ino, FromTimespec(status.st_ctim)};
}

void FillFromStat(const struct stat& status, OwnerNames& owners, Node& node) {
  node.kind = KindOf(status.st_mode);
  node.mode = status.st_mode & 07777;
  node.uid = status.st_uid;
  node.gid = status.st_gid;
  node.user = owners.User(status.st_uid);
  node.group = owners.Group(status.st_gid);
  node.modified = ModifiedOf(status);
  const bool is_device = node.kind == NodeKind::kCharDevice || node.kind == NodeKind::kBlockDevice;
  node.size_bytes = node.kind == NodeKind::kFile ? static_cast<std::uint64_t>(status.st_size) : 0;
  node.device_number = is_device ? status.st_rdev : 0;
  node.sparse = false;
  node.extents.clear();
  node.hard_link_to.clear();
  node.link_target.clear();
  node.xattrs.clear();
}

}  // namespace kerf::agent
