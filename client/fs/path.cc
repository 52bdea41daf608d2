#include "client/fs/path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "client/fs/os_error.h"

namespace kerf::agent {
namespace {

bool IsNodeName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('\0') == std::string_view::npos;
}

// openat, but that no symlink is followed. -1 also where the kernel, or a filter of system calls,
// does not have it.
int OpenWithoutSymlinks(int directory_fd, const std::string& path, int flags,
                        std::uint64_t resolve = RESOLVE_BENEATH) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_NOFOLLOW | O_CLOEXEC);
  how.resolve = RESOLVE_NO_SYMLINKS | resolve;
  return static_cast<int>(syscall(SYS_openat2, directory_fd, path.c_str(), &how, sizeof how));
}

// In as few calls as paths of their length allow.
UniqueFd OpenBelowAtOnce(int root_fd, std::string_view path, int flags) {
  UniqueFd directory;
  int at = root_fd;
  while (path.size() >= kMaxPathCallBytes) {
    const std::size_t slash = path.rfind('/', kMaxPathCallBytes - 1);
    if (slash == std::string_view::npos) return {};
    UniqueFd next(
        OpenWithoutSymlinks(at, std::string(path.substr(0, slash)), O_PATH | O_DIRECTORY));
    if (!next.valid()) return {};
    directory = std::move(next);
    at = directory.get();
    path.remove_prefix(slash + 1);
  }
  return UniqueFd(OpenWithoutSymlinks(at, std::string(path), flags));
}

}  // namespace

absl::Status CheckNodePath(std::string_view path) {
  std::string_view rest = path;
  while (true) {
    const std::size_t slash = rest.find('/');
    if (!IsNodeName(rest.substr(0, slash))) {
      return absl::InvalidArgumentError(ToAbsl(
          Cat("not a path that a snapshot may hold: '", path.substr(0, kMaxPathCallBytes), "'")));
    }
    if (slash == std::string_view::npos) return absl::OkStatus();
    rest.remove_prefix(slash + 1);
  }
}

std::string_view ParentOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::vector<std::string_view> SplitPath(std::string_view path) {
  std::vector<std::string_view> components;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    if (slash > 0) components.push_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return components;
}

bool IsAtOrBelow(std::string_view path, std::string_view ancestor) {
  if (ancestor.empty()) return true;
  return path.starts_with(ancestor) &&
         (path.size() == ancestor.size() || path[ancestor.size()] == '/');
}

int ComparePaths(std::string_view left, std::string_view right) {
  const std::size_t common = std::min(left.size(), right.size());
  const auto [l, r] = std::mismatch(left.begin(), left.begin() + common, right.begin());
  if (l == left.end()) return r == right.end() ? 0 : -1;
  if (r == right.end()) return 1;
  // A component that ends comes before a longer one, whatever byte that goes on with.
  const auto rank = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c) + 1; };
  return rank(*l) - rank(*r);
}

absl::StatusOr<UniqueFd> OpenBelow(int root_fd, std::string_view path, int flags) {
  UniqueFd fd = OpenBelowAtOnce(root_fd, path, flags);
  if (fd.valid()) return fd;
  return OpenBelowStepByStep(root_fd, path, flags);
}

absl::StatusOr<UniqueFd> OpenFromRoot(std::string_view node_path, int flags) {
  if (node_path.size() + 1 < kMaxPathCallBytes) {
    // A descriptor of "/" for each would be half of the work.
    UniqueFd fd(OpenWithoutSymlinks(AT_FDCWD, Cat("/", node_path), flags, 0));
    if (fd.valid()) return fd;
  }
  UniqueFd root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return OsError(errno, "cannot open", "/");
  if (node_path.empty()) return OpenBelowStepByStep(root.get(), ".", flags);
  return OpenBelow(root.get(), node_path, flags);
}

absl::StatusOr<UniqueFd> OpenBelowStepByStep(int root_fd, std::string_view path, int flags) {
  constexpr int kAlways = O_NOFOLLOW | O_CLOEXEC;
  UniqueFd directory;
  int at = root_fd;
  std::string name;
  while (true) {
    const std::size_t slash = path.find('/');
    name.assign(path.substr(0, slash));
    const bool last = slash == std::string_view::npos;
    UniqueFd next(openat(at, name.c_str(), kAlways | (last ? flags : O_PATH | O_DIRECTORY)));
    if (!next.valid()) {
      // O_NOFOLLOW says ELOOP of a symlink, O_DIRECTORY says ENOTDIR.
      const int error = errno == ELOOP ? ENOTDIR : errno;
      return OsError(error, "cannot open", name);
    }
    if (last) return next;
    directory = std::move(next);
    at = directory.get();
    path.remove_prefix(slash + 1);
  }
}

}  // namespace kerf::agent
