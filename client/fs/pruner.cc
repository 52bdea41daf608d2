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
  if (!fd.valid()) {
    // What is no directory, or not there, has nothing in it that could go.
    if (errno == ENOTDIR || errno == ELOOP || errno == ENOENT) return;
    return options_.on_error(node.path,
                             OsError(errno, "cannot open the directory", "/" + node.path));
  }
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

// What goes with a directory, level by level, without recursion: there may be thousands.
class Pruner::Removal {
 public:
  Removal(Pruner& pruner, UniqueFd directory, const std::string& path)
      : pruner_(pruner), path_(path), stack_(std::move(directory), O_RDONLY), levels_(1) {}

  // True if nothing is left in it.
  bool Run();

 private:
  struct Level {
    std::vector<std::string> names;
    // Paths in it that are gone; told unless it goes as well.
    std::vector<std::string> removed;
    bool is_empty = true;
  };

  std::string PathOf(std::string_view below) const {
    return below.empty() ? path_ : Cat(path_, "/", below);
  }
  void List(int fd);
  void Tell(const Level& level) const {
    for (const std::string& removed : level.removed) pruner_.options_.on_removed(removed);
  }
  // Of the name in the deepest level.
  void Take(int directory_fd, const std::string& name);
  void Leave();

  Pruner& pruner_;
  const std::string& path_;
  DirectoryStack stack_;
  std::vector<Level> levels_;
};

void Pruner::Removal::List(int fd) {
  Level& level = levels_.back();
  struct stat status{};
  const std::string path = PathOf(stack_.path());
  if (fstat(fd, &status) != 0 || status.st_dev != pruner_.device_) {
    pruner_.options_.on_error(path, OtherFileSystem(path));
  } else if (const int error = ListNames(fd, level.names); error != 0) {
    pruner_.options_.on_error(path, OsError(error, "cannot list", "/" + path));
  } else {
    return;
  }
  level.names.clear();
  level.is_empty = false;
}

void Pruner::Removal::Take(int directory_fd, const std::string& name) {
  const std::string path = PathOf(stack_.path().empty() ? name : Cat(stack_.path(), "/", name));
  UniqueFd fd(openat(directory_fd, name.c_str(), kDirectoryFlags));
  const int error = fd.valid() ? 0 : errno;
  if (error == ENOENT) return;
  const bool is_unknown = error != 0 && error != ENOTDIR && error != ELOOP;
  if (is_unknown) pruner_.options_.on_error(path, OsError(error, "cannot open", "/" + path));
  Level& level = levels_.back();
  const bool stays = is_unknown || pruner_.Spares(path, fd.valid()) ||
                     (fd.valid() && pruner_.SparesDirectory(fd.get()));
  if (!stays && fd.valid()) {
    stack_.Push(name, std::move(fd));
    levels_.emplace_back();
    List((*stack_.Top())->get());
  } else if (!stays && pruner_.RemoveEntry(directory_fd, name, path, 0)) {
    level.removed.push_back(path);
  } else {
    level.is_empty = false;
  }
}

void Pruner::Removal::Leave() {
  const std::string below(stack_.path());
  const Level level = std::move(levels_.back());
  levels_.pop_back();
  stack_.PopTo(ParentOf(below));
  const auto top = stack_.Top();
  const std::string path = PathOf(below);
  const bool is_gone =
      level.is_empty && top.ok() &&
      pruner_.RemoveEntry((*top)->get(), std::string(NameOf(below)), path, AT_REMOVEDIR);
  if (is_gone) {
    levels_.back().removed.push_back(path);
  } else {
    Tell(level);
    levels_.back().is_empty = false;
  }
}

bool Pruner::Removal::Run() {
  List((*stack_.Top())->get());
  while (true) {
    const auto top = stack_.Top();
    if (!top.ok()) {
      pruner_.options_.on_error(path_, top.status());
      for (const Level& level : levels_) Tell(level);
      return false;
    }
    Level& level = levels_.back();
    if (!level.names.empty()) {
      const std::string name = std::move(level.names.back());
      level.names.pop_back();
      Take((*top)->get(), name);
    } else if (levels_.size() > 1) {
      Leave();
    } else {
      if (!level.is_empty) Tell(level);
      return level.is_empty;
    }
  }
}

bool Pruner::Spares(const std::string& path, bool is_directory) {
  if (!options_.is_spared || !options_.is_spared(path, is_directory)) return false;
  ++spared_count_;
  return true;
}

bool Pruner::SparesDirectory(int directory_fd) {
  struct stat status{};
  const struct stat& spared = options_.spared_directory;
  if (fstat(directory_fd, &status) != 0 || spared.st_ino == 0 || status.st_ino != spared.st_ino ||
      status.st_dev != spared.st_dev) {
    return false;
  }
  ++spared_count_;
  return true;
}

void Pruner::Remove(int directory_fd, const std::string& name, const std::string& path) {
  struct stat status{};
  if (fstatat(directory_fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) options_.on_error(path, OsError(errno, "cannot stat", "/" + path));
    return;
  }
  const bool is_directory = S_ISDIR(status.st_mode);
  if (Spares(path, is_directory)) return;
  if (!is_directory) {
    if (RemoveEntry(directory_fd, name, path, 0)) options_.on_removed(path);
    return;
  }
  UniqueFd fd(openat(directory_fd, name.c_str(), kDirectoryFlags));
  if (!fd.valid()) {
    options_.on_error(path, OsError(errno, "cannot open the directory", "/" + path));
    return;
  }
  if (SparesDirectory(fd.get())) return;
  if (Removal(*this, std::move(fd), path).Run() &&
      RemoveEntry(directory_fd, name, path, AT_REMOVEDIR)) {
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

}  // namespace kerf::agent
