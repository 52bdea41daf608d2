#include "client/fs/directory_stack.h"

#include <fcntl.h>

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
    levels_.pop_back();
    path_.resize(levels_.empty() ? 0 : levels_.back().path_length);
  }
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
  levels_.push_back({path_.size(), std::make_shared<const UniqueFd>(std::move(fd))});
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
