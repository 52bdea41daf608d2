#include "client/fs/restore_metadata.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/os_error.h"

namespace kerf::agent {
namespace {

constexpr std::uint32_t kSetIdBits = S_ISUID | S_ISGID;
constexpr uid_t kKeep = static_cast<uid_t>(-1);

bool IsRoot() { return geteuid() == 0; }

// Attributes in this namespace need the right to write the file, the others need to own it or to be
// root; changing the owner removes capabilities, changing the mode changes an ACL.
bool IsUserXattr(const Xattr& xattr) { return xattr.name.starts_with("user."); }

class Applier {
 public:
  explicit Applier(const Node& node) : node_(node) {}

  void Note(const absl::Status& status) { result_.status.Update(status); }
  void NoteError(int error, std::string_view action) {
    Note(OsError(error, action, "/" + node_.path));
  }

  // `change(uid, gid)` is an fchown. Sets may_set_id_.
  template <typename Change>
  void Owner(Change change) {
    if (!IsRoot() && node_.uid == geteuid() && node_.gid == getegid()) return;
    if (change(node_.uid, node_.gid) == 0) return;
    const int error = errno;
    may_set_id_ = false;
    if (IsRoot()) {
      NoteError(error, "cannot set the owner of");
      return;
    }
    // A group that the user belongs to is possible.
    if (node_.gid != getegid()) (void)change(kKeep, node_.gid);
    result_.unprivileged = true;
  }

  // `change(name, value)` is an fsetxattr.
  template <typename Change>
  void Xattrs(bool user, Change change) {
    for (const Xattr& xattr : node_.xattrs) {
      if (IsUserXattr(xattr) != user || change(xattr.name.c_str(), xattr.value) == 0) continue;
      if (!user && !IsRoot() && (errno == EPERM || errno == EACCES || errno == ENOTSUP)) {
        result_.unprivileged = true;
        continue;
      }
      NoteError(errno, Cat("cannot set the extended attribute ", xattr.name, " of"));
    }
  }

  std::uint32_t mode() const { return may_set_id_ ? node_.mode : node_.mode & ~kSetIdBits; }

  std::array<timespec, 2> times() const {
    std::array<timespec, 2> times{};
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = node_.modified.seconds;
    times[1].tv_nsec = node_.modified.nanoseconds;
    return times;
  }

  const MetadataResult& result() const { return result_; }

 private:
  const Node& node_;
  bool may_set_id_ = true;
  MetadataResult result_;
};

}  // namespace

MetadataResult ApplyMetadata(int fd, const Node& node) {
  Applier applier(node);
  const auto set = [fd](const char* name, const std::string& value) {
    return fsetxattr(fd, name, value.data(), value.size(), 0);
  };
  applier.Owner([fd](uid_t uid, gid_t gid) { return fchown(fd, uid, gid); });
  applier.Xattrs(true, set);
  if (fchmod(fd, applier.mode()) != 0) applier.NoteError(errno, "cannot set the mode of");
  applier.Xattrs(false, set);
  if (futimens(fd, applier.times().data()) != 0) applier.NoteError(errno, "cannot set the time of");
  return applier.result();
}

MetadataResult ApplyMetadataAt(int directory_fd, const std::string& name, const Node& node) {
  Applier applier(node);
  applier.Owner([&](uid_t uid, gid_t gid) {
    return fchownat(directory_fd, name.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW);
  });
  const bool has_mode = node.kind != NodeKind::kSymlink;
  if (has_mode || !node.xattrs.empty()) {
    // Modes and attributes have no call that takes a directory and does not follow; a descriptor
    // that only names the node, through /proc, is the way.
    const UniqueFd fd(openat(directory_fd, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    const std::string path = Cat("/proc/self/fd/", fd.get());
    const auto set = [&](const char* key, const std::string& value) {
      return setxattr(path.c_str(), key, value.data(), value.size(), 0);
    };
    applier.Xattrs(true, set);
    if (has_mode && chmod(path.c_str(), applier.mode()) != 0) {
      applier.NoteError(errno, "cannot set the mode of");
    }
    applier.Xattrs(false, set);
  }
  if (utimensat(directory_fd, name.c_str(), applier.times().data(), AT_SYMLINK_NOFOLLOW) != 0) {
    applier.NoteError(errno, "cannot set the time of");
  }
  return applier.result();
}

}  // namespace kerf::agent
