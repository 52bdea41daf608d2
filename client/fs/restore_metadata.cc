#include "client/fs/restore_metadata.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/handle_link.h"
#include "client/fs/node_stat.h"
#include "client/fs/os_error.h"
#include "client/fs/xattrs.h"

namespace kerf::agent {
namespace {

constexpr std::uint32_t kSetIdBits = S_ISUID | S_ISGID;
constexpr uid_t kKeep = static_cast<uid_t>(-1);

bool IsRoot() { return geteuid() == 0; }

constexpr mode_t kModeBits = 07777;
// FAT has nothing between.
constexpr std::time_t kCoarsestTimeSeconds = 2;
constexpr char kAccessAcl[] = "system.posix_acl_access";
constexpr char kDefaultAcl[] = "system.posix_acl_default";
constexpr char kCapability[] = "security.capability";

// Attributes that security modules and file systems give every file by rules of their own.
bool IsOfTheSystem(std::string_view name) {
  return (name.starts_with("security.") && name != kCapability) ||
         (name.starts_with("system.") && name != kAccessAcl && name != kDefaultAcl);
}

bool Has(const Node& node, std::string_view name) {
  return std::any_of(node.xattrs.begin(), node.xattrs.end(),
                     [&](const Xattr& xattr) { return xattr.name == name; });
}

// There was none, or there can be none.
bool IsAbsence(int error) { return error == ENODATA || error == ENOTSUP || error == ENOSYS; }

// Attributes in this namespace need the right to write the file, the others need to own it or to be
// root; changing the owner removes capabilities, changing the mode changes an ACL.
bool IsUserXattr(const Xattr& xattr) { return xattr.name.starts_with("user."); }

// That of the node; the time of the last access is left.
std::array<timespec, 2> TimesOf(const Node& node) {
  std::array<timespec, 2> times{};
  times[0].tv_nsec = UTIME_OMIT;
  times[1].tv_sec = node.modified.seconds;
  times[1].tv_nsec = node.modified.nanoseconds;
  return times;
}

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

  // Takes away what the node does not have. `list` is an flistxattr, `remove` an fremovexattr.
  template <typename List, typename Remove>
  void RemoveOthers(List list, Remove remove) {
    std::string names;
    if (const int error = ListXattrs(list, names); error != 0) {
      if (!IsAbsence(error)) NoteError(error, "cannot list the extended attributes of");
      return;
    }
    for (const char* name = names.c_str(); *name != 0; name += std::strlen(name) + 1) {
      if (IsOfTheSystem(name) || Has(node_, name) || remove(name) == 0 || IsAbsence(errno))
        continue;
      NoteError(errno, Cat("cannot remove the extended attribute ", name, " of"));
    }
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

  const MetadataResult& result() const { return result_; }

 private:
  const Node& node_;
  bool may_set_id_ = true;
  MetadataResult result_;
};

// Of what was made just now in that directory. The calls that take a descriptor refuse a handle;
// its link leads to its inode.
void ApplyXattrsOfHandle(int directory_fd, int handle, const Node& node, Applier& applier) {
  const std::string link = LinkOfHandle(handle);
  if (IsOutOfReach(link)) {
    // Then nothing is set, and nothing has to be taken away unless the directory gives what is made
    // in it an ACL.
    const bool has_none = node.xattrs.empty() &&
                          fgetxattr(directory_fd, kDefaultAcl, nullptr, 0) < 0 && IsAbsence(errno);
    if (!has_none) {
      applier.Note(
          HandleError(handle, 0, "cannot set the extended attributes of", "/" + node.path));
    }
    return;
  }
  const auto set = [&](const char* key, const std::string& value) {
    return setxattr(link.c_str(), key, value.data(), value.size(), 0);
  };
  applier.RemoveOthers(
      [&](char* data, std::size_t size) { return listxattr(link.c_str(), data, size); },
      [&](const char* key) { return removexattr(link.c_str(), key); });
  applier.Xattrs(true, set);
  applier.Xattrs(false, set);
}

}  // namespace

MetadataResult ApplyAttributes(int fd, const Node& node) {
  Applier applier(node);
  const auto set = [fd](const char* name, const std::string& value) {
    return fsetxattr(fd, name, value.data(), value.size(), 0);
  };
  applier.RemoveOthers([fd](char* data, std::size_t size) { return flistxattr(fd, data, size); },
                       [fd](const char* name) { return fremovexattr(fd, name); });
  applier.Owner([fd](uid_t uid, gid_t gid) { return fchown(fd, uid, gid); });
  applier.Xattrs(true, set);
  // An ACL before the mode, whose bits for the group are the ACL's mask: alone, for a moment, they
  // would be the group's rights.
  applier.Xattrs(false, set);
  if (fchmod(fd, applier.mode()) != 0) applier.NoteError(errno, "cannot set the mode of");
  return applier.result();
}

absl::Status ApplyTime(int fd, const Node& node) {
  if (futimens(fd, TimesOf(node).data()) == 0) return absl::OkStatus();
  return OsError(errno, "cannot set the time of", "/" + node.path);
}

absl::Status AvoidTime(int fd, const Node& node) {
  const auto failed = [&] { return OsError(errno, "cannot set the time of", "/" + node.path); };
  std::array<timespec, 2> times = TimesOf(node);
  struct stat status{};
  if (fstat(fd, &status) != 0) return failed();
  if (status.st_mtim.tv_sec != times[1].tv_sec || status.st_mtim.tv_nsec != times[1].tv_nsec) {
    return absl::OkStatus();
  }
  times[1].tv_sec += kCoarsestTimeSeconds;
  return futimens(fd, times.data()) == 0 ? absl::OkStatus() : failed();
}

// By a descriptor that only names the node: whoever may write in the directory may have given its
// name to another file since it was made, which root would give away.
MetadataResult ApplyMetadataAt(int directory_fd, const std::string& name, const Node& node) {
  Applier applier(node);
  const UniqueFd fd(openat(directory_fd, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!fd.valid() || fstat(fd.get(), &status) != 0) {
    applier.NoteError(errno, "cannot find again");
    return applier.result();
  }
  // A device that somebody else has linked is of the same kind.
  if (KindOf(status.st_mode) != node.kind || status.st_nlink > 1) {
    applier.Note(absl::FailedPreconditionError(
        ToAbsl(Cat("something else has its name by now: /", node.path))));
    return applier.result();
  }
  applier.Owner(
      [&](uid_t uid, gid_t gid) { return fchownat(fd.get(), "", uid, gid, AT_EMPTY_PATH); });
  const bool is_symlink = node.kind == NodeKind::kSymlink;
  const std::string shown = "/" + node.path;
  if (!is_symlink || !node.xattrs.empty()) {
    ApplyXattrsOfHandle(directory_fd, fd.get(), node, applier);
    if (!is_symlink && ChangeModeOfHandle(fd.get(), applier.mode()) != 0) {
      applier.Note(HandleError(fd.get(), errno, "cannot set the mode of", shown));
    }
  }
  if (!applier.result().status.ok()) return applier.result();
  // Of a symlink's handle only newer kernels (5.8) set the time, and there is little to gain by it.
  const int timed =
      is_symlink ? utimensat(directory_fd, name.c_str(), TimesOf(node).data(), AT_SYMLINK_NOFOLLOW)
                 : ChangeTimesOfHandle(fd.get(), TimesOf(node));
  if (timed != 0) applier.Note(HandleError(fd.get(), errno, "cannot set the time of", shown));
  return applier.result();
}

absl::Status RestrictDirectory(int fd, const Node& node) {
  const auto failed = [&](std::string_view action) {
    return OsError(errno, action, "/" + node.path);
  };
  struct stat status{};
  if (fstat(fd, &status) != 0) return failed("cannot stat the directory");
  // Whoever may not change it finds out when it gets its metadata.
  if (!IsRoot() && status.st_uid != geteuid()) return absl::OkStatus();
  const mode_t mode = status.st_mode & kModeBits;
  const mode_t restricted = (mode & node.mode) | S_IRWXU;
  const bool has_acl = fgetxattr(fd, kAccessAcl, nullptr, 0) >= 0;
  // Without the ACL what was, or will be, its mask would be the group's rights.
  const mode_t first =
      has_acl || Has(node, kAccessAcl) ? restricted & ~static_cast<mode_t>(S_IRWXG) : restricted;
  if (first != mode && fchmod(fd, first) != 0) return failed("cannot restrict the directory");
  for (const char* name : {kAccessAcl, kDefaultAcl}) {
    if (fremovexattr(fd, name) != 0 && !IsAbsence(errno)) {
      return failed("cannot remove an ACL of the directory");
    }
  }
  return absl::OkStatus();
}

}  // namespace kerf::agent
