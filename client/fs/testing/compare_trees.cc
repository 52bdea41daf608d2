#include "client/fs/testing/compare_trees.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf::agent::testing {
namespace {

constexpr std::size_t kMaxLines = 50;

std::set<std::string> Names(int fd) {
  std::set<std::string> names;
  const int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return names;
  DIR* directory = fdopendir(own);
  KERF_CHECK(directory != nullptr);
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.insert(name);
  }
  closedir(directory);
  return names;
}

std::map<std::string, std::string> Xattrs(int directory_fd, const std::string& name) {
  const UniqueFd fd(openat(directory_fd, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  const std::string path = Cat("/proc/self/fd/", fd.get());
  std::map<std::string, std::string> xattrs;
  std::string list(65536, '\0');
  const ssize_t length = listxattr(path.c_str(), list.data(), list.size());
  for (ssize_t i = 0; i < length; i += static_cast<ssize_t>(std::strlen(&list[i])) + 1) {
    std::string value(65536, '\0');
    const ssize_t size = getxattr(path.c_str(), &list[i], value.data(), value.size());
    value.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    xattrs[&list[i]] = value;
  }
  return xattrs;
}

std::string LinkTarget(int directory_fd, const std::string& name) {
  std::array<char, 4096> target{};
  const ssize_t length = readlinkat(directory_fd, name.c_str(), target.data(), target.size());
  return {target.data(), length < 0 ? 0 : static_cast<std::size_t>(length)};
}

// Where data begins and ends.
std::vector<off_t> HoleMap(int fd, off_t size) {
  std::vector<off_t> edges;
  for (off_t position = 0; position < size;) {
    const off_t data = lseek(fd, position, SEEK_DATA);
    if (data < 0) break;
    const off_t hole = std::min(lseek(fd, data, SEEK_HOLE), size);
    edges.push_back(data);
    edges.push_back(hole);
    position = hole;
  }
  return edges;
}

class Comparison {
 public:
  explicit Comparison(const CompareOptions& options) : options_(options) {}

  void Directories(int left, int right, const std::string& path) {
    const std::set<std::string> left_names = Names(left);
    const std::set<std::string> right_names = Names(right);
    for (const std::string& name : left_names) {
      if (!right_names.contains(name)) Add(Join(path, name), "is only left");
    }
    for (const std::string& name : right_names) {
      if (!left_names.contains(name)) Add(Join(path, name), "is only right");
    }
    for (const std::string& name : left_names) {
      if (right_names.contains(name)) Entries(left, right, name, Join(path, name));
    }
  }

  std::vector<std::string> lines() && { return std::move(lines_); }

 private:
  using Inodes = std::map<std::pair<dev_t, ino_t>, std::string>;

  static std::string Join(const std::string& path, const std::string& name) {
    return path.empty() ? name : Cat(path, "/", name);
  }

  void Add(const std::string& path, const std::string& what) {
    if (lines_.size() < kMaxLines) lines_.push_back(Cat("'", path, "' ", what));
  }

  template <typename T>
  void Equal(const T& left, const T& right, const std::string& path, const char* what) {
    if (left != right) Add(path, Cat("differs in ", what));
  }

  void Entries(int left_fd, int right_fd, const std::string& name, const std::string& path) {
    struct stat left{};
    struct stat right{};
    fstatat(left_fd, name.c_str(), &left, AT_SYMLINK_NOFOLLOW);
    fstatat(right_fd, name.c_str(), &right, AT_SYMLINK_NOFOLLOW);
    if ((left.st_mode & S_IFMT) != (right.st_mode & S_IFMT)) return Add(path, "differs in kind");
    Equal(left.st_mode, right.st_mode, path,
          Cat("mode: ", left.st_mode & 07777, " and ", right.st_mode & 07777).c_str());
    if (options_.owners) {
      Equal(left.st_uid, right.st_uid, path, "user");
      Equal(left.st_gid, right.st_gid, path, "group");
    }
    if (left.st_mtim.tv_sec != right.st_mtim.tv_sec ||
        left.st_mtim.tv_nsec != right.st_mtim.tv_nsec) {
      Add(path, Cat("differs in mtime: ", left.st_mtim.tv_sec, ".", left.st_mtim.tv_nsec, " and ",
                    right.st_mtim.tv_sec, ".", right.st_mtim.tv_nsec));
    }
    Equal(Xattrs(left_fd, name), Xattrs(right_fd, name), path, "extended attributes");
    if (!S_ISDIR(left.st_mode)) {
      Equal(left.st_nlink, right.st_nlink, path, "number of links");
      Equal(left_inodes_.try_emplace({left.st_dev, left.st_ino}, path).first->second,
            right_inodes_.try_emplace({right.st_dev, right.st_ino}, path).first->second, path,
            "what it is a hard link to");
    }
    if (S_ISREG(left.st_mode)) {
      Files(left_fd, right_fd, name, path, left, right);
    } else if (S_ISLNK(left.st_mode)) {
      Equal(LinkTarget(left_fd, name), LinkTarget(right_fd, name), path, "link target");
    } else if (S_ISCHR(left.st_mode) || S_ISBLK(left.st_mode)) {
      Equal(left.st_rdev, right.st_rdev, path, "device number");
    } else if (S_ISDIR(left.st_mode)) {
      const UniqueFd left_child(openat(left_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
      const UniqueFd right_child(
          openat(right_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
      if (left_child.valid() != right_child.valid()) return Add(path, "can be opened only once");
      if (left_child.valid()) Directories(left_child.get(), right_child.get(), path);
    }
  }

  void Files(int left_fd, int right_fd, const std::string& name, const std::string& path,
             const struct stat& left_stat, const struct stat& right_stat) {
    if (left_stat.st_size != right_stat.st_size) return Add(path, "differs in size");
    const UniqueFd left(openat(left_fd, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    const UniqueFd right(openat(right_fd, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!left.valid() || !right.valid()) {
      return Equal(left.valid(), right.valid(), path, "whether it can be opened");
    }
    static std::array<char, 1 << 16> left_bytes;
    static std::array<char, 1 << 16> right_bytes;
    off_t position = 0;
    // Huge holes are compared as holes.
    const bool huge = left_stat.st_size > (off_t{1} << 30);
    if (options_.holes || huge) {
      Equal(HoleMap(left.get(), left_stat.st_size), HoleMap(right.get(), left_stat.st_size), path,
            "holes");
    }
    while (position < left_stat.st_size) {
      if (huge) position = std::max(position, lseek(left.get(), position, SEEK_DATA));
      const ssize_t count = pread(left.get(), left_bytes.data(), left_bytes.size(), position);
      if (pread(right.get(), right_bytes.data(), right_bytes.size(), position) != count) {
        return Add(path, "cannot be read equally");
      }
      if (count <= 0) return;
      if (std::memcmp(left_bytes.data(), right_bytes.data(), static_cast<std::size_t>(count)) !=
          0) {
        return Add(path, Cat("differs in content behind offset ", position));
      }
      position += count;
      if (huge && lseek(left.get(), position, SEEK_DATA) < 0) return;
    }
  }

  const CompareOptions options_;
  std::vector<std::string> lines_;
  Inodes left_inodes_;
  Inodes right_inodes_;
};

void RemoveBelow(int parent, const std::string& name) {
  if (unlinkat(parent, name.c_str(), 0) == 0) return;
  const UniqueFd handle(openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW));
  if (!handle.valid()) return;
  chmod(Cat("/proc/self/fd/", handle.get()).c_str(), S_IRWXU);
  const UniqueFd fd(openat(handle.get(), ".", O_RDONLY | O_DIRECTORY));
  for (const std::string& child : Names(fd.get())) RemoveBelow(fd.get(), child);
  unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

std::vector<std::string> CompareTrees(const std::string& left, const std::string& right,
                                      const CompareOptions& options) {
  const UniqueFd left_fd(open(left.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd right_fd(open(right.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!left_fd.valid()) return {"cannot open " + left};
  if (!right_fd.valid()) return {"cannot open " + right};
  Comparison comparison(options);
  comparison.Directories(left_fd.get(), right_fd.get(), "");
  return std::move(comparison).lines();
}

void RemoveTree(const std::string& path) { RemoveBelow(AT_FDCWD, path); }

}  // namespace kerf::agent::testing
