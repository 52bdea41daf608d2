#include "client/fs/xattrs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "client/fs/handle_link.h"
#include "client/fs/node_handle.h"
#include "client/fs/os_error.h"

namespace kerf::agent {
namespace {

// Most files have no attribute and most values are short: one system call then.
constexpr std::size_t kFirstTryBytes = 1024;
// The limit of the kernel (XATTR_SIZE_MAX, XATTR_LIST_MAX), so a larger answer is not possible.
constexpr std::size_t kMaxBytes = 64 * 1024;

// Calls `get(data, size)` until the answer fits, and leaves it in `buffer`. Returns an errno.
template <typename Get>
int Fetch(const Get& get, std::string& buffer) {
  std::array<char, kFirstTryBytes> first;
  ssize_t size = get(first.data(), first.size());
  if (size >= 0) {
    buffer.assign(first.data(), static_cast<std::size_t>(size));
    return 0;
  }
  if (errno != ERANGE) return errno;
  buffer.resize(kMaxBytes);
  size = get(buffer.data(), buffer.size());
  if (size < 0) return errno;
  buffer.resize(static_cast<std::size_t>(size));
  return 0;
}

template <typename List, typename Get>
absl::Status Read(const std::string& path, std::vector<Xattr>& xattrs, List list, Get get) {
  xattrs.clear();
  std::string names;
  if (const int error = Fetch(list, names); error != 0) {
    if (error == ENOTSUP || error == ENOSYS) return absl::OkStatus();
    return OsError(error, "cannot list the extended attributes of", path);
  }
  for (std::size_t begin = 0; begin < names.size();) {
    Xattr xattr;
    xattr.name = names.c_str() + begin;
    begin += xattr.name.size() + 1;
    const int error =
        Fetch([&](char* data, std::size_t size) { return get(xattr.name.c_str(), data, size); },
              xattr.value);
    if (error == ENODATA) continue;
    if (error != 0) {
      return OsError(error, Cat("cannot read the extended attribute ", xattr.name, " of"), path);
    }
    xattrs.push_back(std::move(xattr));
  }
  std::sort(xattrs.begin(), xattrs.end(),
            [](const Xattr& left, const Xattr& right) { return left.name < right.name; });
  return absl::OkStatus();
}

// A directory by its handle, a regular file by its path if that leads to the same one. Nothing else
// is opened for its attributes: that may do something.
UniqueFd OpenWithoutLink(const UniqueFd& handle, const std::string& path) {
  struct stat wanted{};
  if (fstat(handle.get(), &wanted) != 0) return {};
  if (S_ISDIR(wanted.st_mode)) {
    return UniqueFd(openat(handle.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  if (!S_ISREG(wanted.st_mode) || !path.starts_with('/')) return {};
  absl::StatusOr<UniqueFd> fd = OpenFileOf(handle, path.substr(1), OpenFor::kReading);
  struct stat found{};
  const bool is_same = fd.ok() && fstat(fd->get(), &found) == 0 && found.st_dev == wanted.st_dev &&
                       found.st_ino == wanted.st_ino;
  return is_same ? *std::move(fd) : UniqueFd();
}

}  // namespace

int ListXattrs(const std::function<ssize_t(char* data, std::size_t size)>& list,
               std::string& names) {
  return Fetch(list, names);
}

absl::Status ReadXattrs(int fd, const std::string& path, std::vector<Xattr>& xattrs) {
  return Read(
      path, xattrs, [&](char* data, std::size_t size) { return flistxattr(fd, data, size); },
      [&](const char* name, char* data, std::size_t size) {
        return fgetxattr(fd, name, data, size);
      });
}

// The calls that take a descriptor refuse such a one. The link of /proc leads to its inode, and if
// that is a symlink not on to what it names.
absl::Status ReadXattrsOfHandle(const UniqueFd& handle, const std::string& path,
                                std::vector<Xattr>& xattrs) {
  const std::string link = LinkOfHandle(handle.get());
  const absl::Status read = Read(
      path, xattrs,
      [&](char* data, std::size_t size) { return listxattr(link.c_str(), data, size); },
      [&](const char* name, char* data, std::size_t size) {
        return getxattr(link.c_str(), name, data, size);
      });
  if (read.ok() || !IsOutOfReach(link)) return read;
  const UniqueFd fd = OpenWithoutLink(handle, path);
  if (fd.valid()) return ReadXattrs(fd.get(), path, xattrs);
  return HandleError(handle.get(), 0, "cannot list the extended attributes of", path);
}

}  // namespace kerf::agent
