#include "client/fs/node_handle.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/fs/handle_link.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"

namespace kerf::agent {
namespace {

// Calls `open(flags)`, an open(2).
template <typename Open>
UniqueFd OpenWithoutTouching(const Open& open, int flags) {
  UniqueFd fd(open(flags | O_NOATIME));
  // Only the owner and root may leave the access time alone.
  if (!fd.valid() && errno == EPERM) fd = UniqueFd(open(flags));
  return fd;
}

absl::Status NoRegularFile(const std::string& node_path) {
  return absl::FailedPreconditionError(ToAbsl(Cat("it is no longer a regular file: /", node_path)));
}

// By its name again, which follows no symlink either: where the handle's link is out of reach; and
// where a server of files has put another one in its place, which only a name leads to.
absl::StatusOr<UniqueFd> OpenByName(const std::string& node_path, int flags) {
  KERF_ASSIGN_OR_RETURN(const UniqueFd root, OpenFromRoot(ParentOf(node_path), O_PATH));
  const std::string name(NameOf(node_path));
  UniqueFd fd = OpenWithoutTouching(
      [&](int how) { return openat(root.get(), name.c_str(), how | O_NOFOLLOW); }, flags);
  if (!fd.valid() && (errno == ELOOP || errno == ENXIO)) return NoRegularFile(node_path);
  if (!fd.valid()) return OsError(errno, "cannot open", "/" + node_path);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return OsError(errno, "cannot stat", "/" + node_path);
  if (!S_ISREG(status.st_mode)) return NoRegularFile(node_path);
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> HandleOfNode(const std::string& node_path) {
  return OpenFromRoot(node_path, O_PATH);
}

absl::StatusOr<UniqueFd> OpenFileOf(const UniqueFd& handle, const std::string& node_path,
                                    OpenFor purpose) {
  struct stat status{};
  if (fstat(handle.get(), &status) != 0) return OsError(errno, "cannot stat", "/" + node_path);
  if (!S_ISREG(status.st_mode)) return NoRegularFile(node_path);
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY;
  // What the handle stands for, whatever has the name by now.
  const std::string link = LinkOfHandle(handle.get());
  const auto open_link = [&](int how) { return open(link.c_str(), how); };
  UniqueFd fd = OpenWithoutTouching(open_link, kFlags | O_NONBLOCK);
  const bool is_hint = purpose == OpenFor::kHint;
  if (!fd.valid() && errno == EWOULDBLOCK && !is_hint) {
    fd = OpenWithoutTouching(open_link, kFlags);
  }
  if (fd.valid()) return fd;
  const int error = errno;
  const bool is_by_name = !is_hint && (error == ENOENT || error == ESTALE || IsOutOfReach(link));
  // Should a fifo stand there by now, open must not wait for its writer.
  if (is_by_name) return OpenByName(node_path, kFlags | O_NONBLOCK);
  return OsError(error, "cannot open", "/" + node_path);
}

}  // namespace kerf::agent
