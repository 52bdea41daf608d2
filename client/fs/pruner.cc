#include "client/fs/pruner.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"

namespace kerf::agent {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};

// In byte order. An errno, 0 if all went well.
int ListNames(int directory_fd, std::vector<std::string>& names) {
  names.clear();
  const int copy = openat(directory_fd, ".", kDirectoryFlags);
  if (copy < 0) return errno;
  const std::unique_ptr<DIR, DirectoryCloser> directory(fdopendir(copy));
  if (directory == nullptr) {
    const int error = errno;
    close(copy);
    return error;
  }
  errno = 0;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  std::sort(names.begin(), names.end());
  return error;
}

absl::Status OtherFileSystem(const std::string& path) {
  return absl::FailedPreconditionError(
      Cat("/", path, " is on another file system, which --delete leaves alone"));
}

}  // namespace

Pruner::Pruner(UniqueFd target, PruneOptions options)
    : options_(std::move(options)), stack_(std::move(target), O_RDONLY) {
  struct stat status{};
  const auto root = stack_.Top();
  if (root.ok() && fstat((*root)->get(), &status) == 0) device_ = status.st_dev;
  Enter("");
}

std::string Pruner::PathOf(std::string_view name) const {
  return stack_.path().empty() ? std::string(name) : Cat(stack_.path(), "/", name);
}

// The top of the stack is `path`.
void Pruner::Enter(const std::string& path) {
  Level& level = levels_.emplace_back();
  level.path_bytes = path.size();
  if (!options_.may_remove_in(path)) return;
  const auto directory = stack_.Top();
  if (!directory.ok()) return options_.on_error(path, directory.status());
  struct stat status{};
  if (fstat((*directory)->get(), &status) != 0 || status.st_dev != device_) {
    return options_.on_error(path, OtherFileSystem(path));
  }
  if (const int error = ListNames((*directory)->get(), level.names); error != 0) {
    // Half a list is none.
    level.names.clear();
    return options_.on_error(path, OsError(error, "cannot list", "/" + path));
  }
  level.may_remove = true;
}

void Pruner::Keep(const Node& node) {
  const std::string_view parent = ParentOf(node.path);
  while (levels_.size() > 1 && stack_.path() != parent && !IsAtOrBelow(parent, stack_.path())) {
    Leave();
  }
  // Its directory is not there.
  if (stack_.path() != parent) return;
  const std::string name(NameOf(node.path));
  RemoveBefore(name);
  Level& level = levels_.back();
  if (level.next < level.names.size() && level.names[level.next] == name) ++level.next;
  if (node.kind != NodeKind::kDirectory) return;
  const auto directory = stack_.Top();
  if (!directory.ok()) return options_.on_error(node.path, directory.status());
  UniqueFd fd(openat((*directory)->get(), name.c_str(), kDirectoryFlags));
  // What is no directory has nothing in it that could go.
  if (!fd.valid()) return;
  stack_.Push(name, std::move(fd));
  Enter(node.path);
}

void Pruner::Finish() {
  while (!levels_.empty()) Leave();
}

void Pruner::Leave() {
  RemoveBefore({});
  levels_.pop_back();
  if (levels_.empty()) return;
  const std::string path(stack_.path().substr(0, levels_.back().path_bytes));
  stack_.PopTo(path);
}

// All, if `name` is empty.
void Pruner::RemoveBefore(std::string_view name) {
  Level& level = levels_.back();
  for (; level.next < level.names.size(); ++level.next) {
    const std::string& other = level.names[level.next];
    if (!name.empty() && other >= name) return;
    const std::string path = PathOf(other);
    const auto directory = stack_.Top();
    if (!directory.ok()) return options_.on_error(path, directory.status());
    Remove((*directory)->get(), other, path);
  }
}

void Pruner::Remove(int directory_fd, const std::string& name, const std::string& path) {
  struct stat status{};
  if (fstatat(directory_fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) options_.on_error(path, OsError(errno, "cannot stat", "/" + path));
    return;
  }
  if (!S_ISDIR(status.st_mode)) {
    if (RemoveEntry(directory_fd, name, path, 0)) options_.on_removed(path);
    return;
  }
  UniqueFd fd(openat(directory_fd, name.c_str(), kDirectoryFlags));
  if (!fd.valid()) {
    options_.on_error(path, OsError(errno, "cannot open the directory", "/" + path));
    return;
  }
  if (RemoveContent(std::move(fd), path) && RemoveEntry(directory_fd, name, path, AT_REMOVEDIR)) {
    options_.on_removed(path);
  }
}

bool Pruner::RemoveEntry(int directory_fd, const std::string& name, const std::string& path,
                         int flags) {
  if (!options_.dry_run && unlinkat(directory_fd, name.c_str(), flags) != 0 && errno != ENOENT) {
    options_.on_error(path, OsError(errno, "cannot remove", "/" + path));
    return false;
  }
  ++removed_count_;
  return true;
}

// Level by level, without recursion: there may be thousands.
bool Pruner::RemoveContent(UniqueFd directory, const std::string& path) {
  struct Inner {
    std::vector<std::string> names;
    bool is_empty = true;
  };
  DirectoryStack stack(std::move(directory), O_RDONLY);
  std::vector<Inner> inner(1);
  const auto path_of = [&](std::string_view below) {
    return below.empty() ? path : Cat(path, "/", below);
  };
  const auto list = [&](int fd, Inner& level) {
    struct stat status{};
    std::string at = path_of(stack.path());
    if (fstat(fd, &status) != 0 || status.st_dev != device_) {
      options_.on_error(at, OtherFileSystem(at));
    } else if (const int error = ListNames(fd, level.names); error != 0) {
      options_.on_error(at, OsError(error, "cannot list", "/" + at));
    } else {
      return;
    }
    level.names.clear();
    level.is_empty = false;
  };
  auto top = stack.Top();
  list((*top)->get(), inner.back());
  while (true) {
    top = stack.Top();
    if (!top.ok()) {
      options_.on_error(path, top.status());
      return false;
    }
    Inner& level = inner.back();
    if (level.names.empty()) {
      const bool is_empty = level.is_empty;
      if (inner.size() == 1) return is_empty;
      const std::string below(stack.path());
      inner.pop_back();
      stack.PopTo(ParentOf(below));
      top = stack.Top();
      const bool is_gone =
          is_empty && top.ok() &&
          RemoveEntry((*top)->get(), std::string(NameOf(below)), path_of(below), AT_REMOVEDIR);
      if (!is_gone) inner.back().is_empty = false;
      continue;
    }
    const std::string name = std::move(level.names.back());
    level.names.pop_back();
    UniqueFd fd(openat((*top)->get(), name.c_str(), kDirectoryFlags));
    if (fd.valid()) {
      stack.Push(name, std::move(fd));
      inner.emplace_back();
      list((*stack.Top())->get(), inner.back());
    } else if (errno == ENOTDIR || errno == ELOOP) {
      const std::string below = stack.path().empty() ? name : Cat(stack.path(), "/", name);
      if (!RemoveEntry((*top)->get(), name, path_of(below), 0)) level.is_empty = false;
    } else if (errno != ENOENT) {
      const std::string below = stack.path().empty() ? name : Cat(stack.path(), "/", name);
      options_.on_error(path_of(below), OsError(errno, "cannot open", "/" + path_of(below)));
      level.is_empty = false;
    }
  }
}

}  // namespace kerf::agent
