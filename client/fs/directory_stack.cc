#include "client/fs/directory_stack.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/status.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kMaxOpenDirectories = 64;

}  // namespace

DirectoryStack::DirectoryStack(UniqueFd root, int flags)
    : root_(std::make_shared<const UniqueFd>(std::move(root))), flags_(flags | O_DIRECTORY) {}

void DirectoryStack::PopTo(std::string_view path) {
  while (!IsAtOrBelow(path, path_)) {
    const Directory child = std::move(levels_.back().fd);
    levels_.pop_back();
    path_.resize(levels_.empty() ? 0 : levels_.back().path_length);
    if (levels_.empty() || child == nullptr) continue;
    Level& top = levels_.back();
    if (top.fd == nullptr) top.fd = OpenAbove(child, top, flags_);
  }
}

// From the root downwards it would cost as many calls as there are levels, for each level of a deep
// tree. Null where the child was moved.
DirectoryStack::Directory DirectoryStack::OpenAbove(const Directory& child, const Level& level,
                                                    int flags) {
  UniqueFd fd(openat(child->get(), "..", flags | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  const bool is_it = fd.valid() && fstat(fd.get(), &status) == 0 && status.st_dev == level.device &&
                     status.st_ino == level.inode;
  return is_it ? std::make_shared<const UniqueFd>(std::move(fd)) : nullptr;
}

absl::StatusOr<DirectoryStack::Directory> DirectoryStack::Top() {
  if (levels_.empty()) return root_;
  Directory& fd = levels_.back().fd;
  if (fd == nullptr) {
    KERF_ASSIGN_OR_RETURN(UniqueFd opened, OpenBelow(root_->get(), path_, flags_));
    fd = std::make_shared<const UniqueFd>(std::move(opened));
  }
  return fd;
}

void DirectoryStack::Push(std::string_view name, UniqueFd fd) {
  if (!path_.empty()) path_.push_back('/');
  path_.append(name);
  struct stat status{};
  // Of none: that is no directory's number.
  if (fstat(fd.get(), &status) != 0) status.st_ino = 0;
  levels_.push_back({path_.size(), status.st_dev, status.st_ino,
                     std::make_shared<const UniqueFd>(std::move(fd))});
  if (levels_.size() > kMaxOpenDirectories) {
    levels_[levels_.size() - kMaxOpenDirectories - 1].fd = nullptr;
  }
}

absl::StatusOr<DirectoryStack::Directory> DirectoryStack::Enter(std::string_view path) {
  PopTo(path);
  std::string_view below = path.substr(path_.size());
  for (const std::string_view component : SplitPath(below)) {
    KERF_ASSIGN_OR_RETURN(const Directory parent, Top());
    const std::string name(component);
    UniqueFd fd(openat(parent->get(), name.c_str(), flags_ | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid()) {
      return OsError(errno == ELOOP ? ENOTDIR : errno, "cannot open the directory", path);
    }
    Push(name, std::move(fd));
  }
  return Top();
}

}  // namespace kerf::agent
