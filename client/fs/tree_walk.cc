#include "client/fs/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/os_error.h"
#include "client/fs/owner_names.h"
#include "client/fs/path.h"
#include "client/fs/xattrs.h"

namespace kerf::agent {
namespace {

// Directories that stay open on the way down; those above are opened again on the way back.
constexpr std::size_t kMaxOpenDirectories = 64;

struct Inode {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  friend bool operator==(const Inode&, const Inode&) = default;
};

// The given roots as a tree: what lies between "/" and them.
struct Plan {
  bool is_root = false;
  std::map<std::string, Plan, std::less<>> children;

  const Plan* Child(std::string_view name) const {
    const auto found = children.find(name);
    return found == children.end() ? nullptr : &found->second;
  }
};

// A directory on the way from "/" to where the walk stands.
struct Frame {
  UniqueFd fd;
  // Of the directory, "" for "/".
  std::string path;
  std::uint64_t device = 0;
  // What of it is walked: its names, sorted.
  std::vector<std::string> names;
  std::size_t next = 0;
  // The roots below it, null if there are none.
  const Plan* plan = nullptr;
  // All of it is walked, not only what `plan` says.
  bool whole = false;
};

std::string JoinPath(std::string_view directory, std::string_view name) {
  std::string path;
  path.reserve(directory.size() + 1 + name.size());
  path.append(directory);
  if (!path.empty()) path.push_back('/');
  path.append(name);
  return path;
}

NodeKind KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return NodeKind::kDirectory;
    case S_IFLNK:
      return NodeKind::kSymlink;
    case S_IFIFO:
      return NodeKind::kFifo;
    case S_IFSOCK:
      return NodeKind::kSocket;
    case S_IFCHR:
      return NodeKind::kCharDevice;
    case S_IFBLK:
      return NodeKind::kBlockDevice;
    default:
      return NodeKind::kFile;
  }
}

// What stat tells of any node; all else is empty.
void FillFromStat(const struct stat& status, OwnerNames& owners, ScannedNode& scanned) {
  Node& node = scanned.node;
  node.kind = KindOf(status.st_mode);
  node.mode = status.st_mode & 07777;
  node.uid = status.st_uid;
  node.gid = status.st_gid;
  node.user = owners.User(status.st_uid);
  node.group = owners.Group(status.st_gid);
  node.modified = {status.st_mtim.tv_sec, static_cast<std::uint32_t>(status.st_mtim.tv_nsec)};
  node.size_bytes = 0;
  node.sparse = false;
  node.extents.clear();
  node.hard_link_to.clear();
  node.link_target.clear();
  node.device_number = 0;
  node.xattrs.clear();
  scanned.has_other_names = false;
  scanned.identity.device = status.st_dev;
  scanned.identity.inode = status.st_ino;
  scanned.identity.changed = {status.st_ctim.tv_sec,
                              static_cast<std::uint32_t>(status.st_ctim.tv_nsec)};
}

// A path for system calls that take no directory: `plain`, or where that is too long the way
// through the open directory.
std::string CallPath(const std::string& plain, const UniqueFd& directory, std::string_view name) {
  // The plain path is three times as fast.
  if (plain.size() < kMaxPathCallBytes) return plain;
  return Cat("/proc/self/fd/", directory.get(), "/", name);
}

// Lists the names of an open directory in byte order.
absl::Status ListNames(int fd, const std::string& path, std::vector<std::string>& names) {
  names.clear();
  // A descriptor of its own: fdopendir takes it over and moves its position.
  const int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return OsError(errno, "cannot open the directory", path);
  DIR* directory = fdopendir(own);
  if (directory == nullptr) {
    const int error = errno;
    close(own);
    return OsError(error, "cannot list the directory", path);
  }
  errno = 0;
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  const int error = errno;
  closedir(directory);
  std::sort(names.begin(), names.end());
  if (error != 0) return OsError(error, "cannot list all of the directory", path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> RealPath(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return OsError(errno, "cannot back up", path);
  std::string result = resolved;
  std::free(resolved);
  return result;
}

class PlannedWalk : public TreeWalk {
 public:
  explicit PlannedWalk(ScanOptions options) : options_(std::move(options)) {}

  absl::Status Start(const std::vector<std::string>& roots);
  bool Next(ScannedNode& scanned) override;

 private:
  void Report(const std::string& node_path, const absl::Status& status) const {
    if (options_.on_error) options_.on_error(AbsolutePath(node_path), status);
  }
  // Emits the entry `name` of the top frame, and enters it if it is a directory; false if it is
  // left out.
  bool Visit(const std::string& name, ScannedNode& scanned);
  bool IsSkipped(const struct stat& status) const;
  absl::Status Describe(const Frame& frame, const std::string& name, const struct stat& status,
                        ScannedNode& scanned);
  void Enter(const std::string& name, const struct stat& status, const Node& node, const Plan* plan,
             bool whole);
  void Leave();

  ScanOptions options_;
  Plan plan_;
  OwnerNames owners_;
  std::vector<Inode> skipped_;
  std::vector<Frame> frames_;
};

absl::Status PlannedWalk::Start(const std::vector<std::string>& roots) {
  if (roots.empty()) return absl::InvalidArgumentError("there is nothing to back up: no path");
  absl::Status first_error;
  bool any = false;
  for (const std::string& root : roots) {
    const absl::StatusOr<std::string> path = ResolveRoot(root);
    if (!path.ok()) {
      first_error.Update(path.status());
      if (options_.on_error) options_.on_error(root, path.status());
      continue;
    }
    any = true;
    Plan* plan = &plan_;
    for (const std::string_view name : SplitPath(*path)) plan = &plan->children[std::string(name)];
    plan->is_root = true;
  }
  if (!any) return first_error;
  for (const std::string& directory : options_.skip_directories) {
    struct stat status{};
    if (stat(directory.c_str(), &status) == 0) skipped_.push_back({status.st_dev, status.st_ino});
  }
  Frame top;
  top.fd = UniqueFd(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status{};
  if (!top.fd.valid() || fstat(top.fd.get(), &status) != 0) {
    return OsError(errno, "cannot open", "/");
  }
  top.device = status.st_dev;
  top.plan = &plan_;
  top.whole = plan_.is_root;
  if (top.whole) {
    KERF_RETURN_IF_ERROR(ListNames(top.fd.get(), "/", top.names));
  } else {
    for (const auto& [name, child] : plan_.children) top.names.push_back(name);
  }
  frames_.push_back(std::move(top));
  return absl::OkStatus();
}

bool PlannedWalk::Next(ScannedNode& scanned) {
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    if (frame.next == frame.names.size()) {
      Leave();
      continue;
    }
    const std::string name = std::move(frame.names[frame.next++]);
    if (Visit(name, scanned)) return true;
  }
  return false;
}

bool PlannedWalk::IsSkipped(const struct stat& status) const {
  return std::find(skipped_.begin(), skipped_.end(), Inode{status.st_dev, status.st_ino}) !=
         skipped_.end();
}

bool PlannedWalk::Visit(const std::string& name, ScannedNode& scanned) {
  const Frame& frame = frames_.back();
  Node& node = scanned.node;
  node.path = JoinPath(frame.path, name);
  struct stat status{};
  if (fstatat(frame.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    Report(node.path, OsError(errno, "cannot stat", AbsolutePath(node.path)));
    return false;
  }
  const bool is_directory = S_ISDIR(status.st_mode);
  const Plan* plan = frame.plan == nullptr ? nullptr : frame.plan->Child(name);
  bool whole = frame.whole;
  if (whole && options_.excludes.Matches(node.path, is_directory)) whole = false;
  const bool emitted = whole || plan != nullptr;
  if (whole && options_.one_file_system && status.st_dev != frame.device) whole = false;
  if (plan != nullptr && plan->is_root) whole = true;
  if (!emitted || (is_directory && !skipped_.empty() && IsSkipped(status))) return false;

  if (absl::Status described = Describe(frame, name, status, scanned); !described.ok()) {
    Report(node.path, described);
    return false;
  }
  if (is_directory && (whole || plan != nullptr)) Enter(name, status, node, plan, whole);
  return true;
}

absl::Status PlannedWalk::Describe(const Frame& frame, const std::string& name,
                                   const struct stat& status, ScannedNode& scanned) {
  FillFromStat(status, owners_, scanned);
  Node& node = scanned.node;
  if (node.kind == NodeKind::kFile) {
    node.size_bytes = static_cast<std::uint64_t>(status.st_size);
    scanned.has_other_names = status.st_nlink > 1;
  } else if (node.kind == NodeKind::kCharDevice || node.kind == NodeKind::kBlockDevice) {
    node.device_number = status.st_rdev;
  } else if (node.kind == NodeKind::kSymlink) {
    node.link_target.resize(PATH_MAX);
    const ssize_t length =
        readlinkat(frame.fd.get(), name.c_str(), node.link_target.data(), node.link_target.size());
    if (length < 0) return OsError(errno, "cannot read the symlink", AbsolutePath(node.path));
    node.link_target.resize(static_cast<std::size_t>(length));
  }
  if (!options_.read_xattrs) return absl::OkStatus();
  const std::string path = CallPath(AbsolutePath(node.path), frame.fd, name);
  if (absl::Status read = ReadXattrs(path, node.xattrs); !read.ok()) {
    // The node is worth more than its attributes.
    node.xattrs.clear();
    Report(node.path, read);
  }
  return absl::OkStatus();
}

void PlannedWalk::Enter(const std::string& name, const struct stat& status, const Node& node,
                        const Plan* plan, bool whole) {
  Frame frame;
  frame.path = node.path;
  frame.device = status.st_dev;
  frame.plan = plan;
  frame.whole = whole;
  // Parents of a root need no more than the right to pass through.
  const int access = whole ? O_RDONLY : O_PATH;
  frame.fd = UniqueFd(
      openat(frames_.back().fd.get(), name.c_str(), access | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!frame.fd.valid()) {
    Report(node.path, OsError(errno, "cannot open the directory", AbsolutePath(node.path)));
    return;
  }
  if (whole) {
    const absl::Status listed = ListNames(frame.fd.get(), AbsolutePath(node.path), frame.names);
    if (!listed.ok()) Report(node.path, listed);
  }
  if (plan != nullptr && !whole) {
    for (const auto& [child, unused] : plan->children) frame.names.push_back(child);
  }
  frames_.push_back(std::move(frame));
  if (frames_.size() > kMaxOpenDirectories) {
    frames_[frames_.size() - kMaxOpenDirectories].fd.Reset();
  }
}

void PlannedWalk::Leave() {
  frames_.pop_back();
  if (frames_.empty() || frames_.back().fd.valid()) return;
  Frame& frame = frames_.back();
  absl::StatusOr<UniqueFd> opened =
      OpenBelow(frames_.front().fd.get(), frame.path, O_RDONLY | O_DIRECTORY);
  if (opened.ok()) {
    frame.fd = *std::move(opened);
    return;
  }
  Report(frame.path, opened.status());
  frame.next = frame.names.size();
}

}  // namespace

absl::StatusOr<std::string> ResolveRoot(const std::string& root) {
  if (root.empty()) return absl::InvalidArgumentError("cannot back up an empty path");
  const std::string_view name = NameOf(root);
  std::string absolute;
  if (name.empty() || name == "." || name == "..") {
    KERF_ASSIGN_OR_RETURN(absolute, RealPath(root));
  } else {
    const std::string_view parent = std::string_view(root).substr(0, root.size() - name.size());
    KERF_ASSIGN_OR_RETURN(absolute, RealPath(parent.empty() ? "." : std::string(parent)));
    if (!absolute.ends_with('/')) absolute.push_back('/');
    absolute.append(name);
    struct stat status{};
    if (lstat(absolute.c_str(), &status) != 0) return OsError(errno, "cannot back up", root);
  }
  return absolute;
}

absl::StatusOr<std::unique_ptr<TreeWalk>> OpenTreeWalk(const std::vector<std::string>& roots,
                                                       ScanOptions options) {
  auto walk = std::make_unique<PlannedWalk>(std::move(options));
  KERF_RETURN_IF_ERROR(walk->Start(roots));
  return walk;
}

absl::Status RescanFile(ScannedNode& scanned) {
  Node& node = scanned.node;
  const std::string name(NameOf(node.path));
  const UniqueFd root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  KERF_ASSIGN_OR_RETURN(const UniqueFd parent,
                        OpenBelow(root.get(), ParentOf(node.path), O_PATH | O_DIRECTORY));
  struct stat status{};
  if (fstatat(parent.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return OsError(errno, "cannot stat", AbsolutePath(node.path));
  }
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("it was replaced during the backup: ", AbsolutePath(node.path))));
  }
  OwnerNames owners;
  FillFromStat(status, owners, scanned);
  node.size_bytes = static_cast<std::uint64_t>(status.st_size);
  return ReadXattrs(CallPath(AbsolutePath(node.path), parent, name), node.xattrs);
}

std::string AbsolutePath(const std::string& node_path) { return "/" + node_path; }

}  // namespace kerf::agent
