#include "client/fs/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/node_stat.h"
#include "client/fs/os_error.h"
#include "client/fs/owner_names.h"
#include "client/fs/path.h"
#include "client/fs/pseudo_file_system.h"
#include "client/fs/stamp_clock.h"
#include "client/fs/walk_ahead.h"
#include "client/fs/xattrs.h"

namespace kerf::agent {
namespace {

// Directories that stay open on the way down; those above are opened again on the way back.
constexpr std::size_t kMaxOpenDirectories = 64;
// At a name that is given to something else each time.
constexpr int kMaxLooks = 3;

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
  Inode inode;
  // Nobody can set the ctimes of its file system to what they were.
  bool has_own_ctimes = true;
  // What of it is walked: its names, sorted.
  std::vector<std::string> names;
  std::size_t next = 0;
  // The roots below it, null if there are none.
  const Plan* plan = nullptr;
  // All of it is walked, not only what `plan` says.
  bool whole = false;
};

// Larger directories are worth looking at in the order of the disk while the walk has begun with
// them.
constexpr std::size_t kManyNames = 64;

std::string JoinPath(std::string_view directory, std::string_view name) {
  std::string path;
  path.reserve(directory.size() + 1 + name.size());
  path.append(directory);
  if (!path.empty()) path.push_back('/');
  path.append(name);
  return path;
}

// Lists the names of an open directory in byte order; in `directories` those of directories, as far
// as the file system says which they are.
absl::Status ListNames(int fd, const std::string& path, std::vector<std::string>& names,
                       std::vector<std::string>* directories = nullptr) {
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
    if (name == "." || name == "..") continue;
    names.emplace_back(name);
    if (directories != nullptr && entry->d_type == DT_DIR) directories->emplace_back(name);
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
  // What stands at a name: false if it is left out. Opens a directory that is to be entered;
  // `opened` says why it could not.
  absl::StatusOr<bool> LookAt(const std::string& name, const std::string& path, struct stat& status,
                              Frame& below, absl::Status& opened) const;
  bool IsSkipped(const struct stat& status) const;
  void LeaveOut(const std::string& node_path) const {
    if (options_.on_left_out) options_.on_left_out(node_path);
  }
  bool IsOtherFileSystem(const struct stat& status) const {
    return options_.one_file_system && status.st_dev != frames_.back().inode.device;
  }
  // Of what is open: that may lie elsewhere than what was seen.
  bool BeginsPseudoFileSystem(const UniqueFd& fd, const struct stat& status) const {
    return !options_.pseudo_file_systems && status.st_dev != frames_.back().inode.device &&
           IsOnPseudoFileSystem(fd.get());
  }
  absl::Status Describe(const std::string& name, struct stat status, const Frame& below,
                        ScannedNode& scanned);
  absl::StatusOr<UniqueFd> Handle(const std::string& name, const std::string& path,
                                  struct stat& status) const;
  void Enter(Frame frame, const Node& node);
  void LookAhead(const Frame& frame, std::vector<std::string> directories);
  void Leave();
  absl::Status Reopen(const UniqueFd& child, Frame& frame) const;

  ScanOptions options_;
  Plan plan_;
  OwnerNames owners_;
  std::vector<Inode> skipped_;
  std::vector<Frame> frames_;
  // Null if nothing is looked at ahead.
  std::unique_ptr<WalkAhead> ahead_;
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
  top.inode = {status.st_dev, status.st_ino};
  top.has_own_ctimes = WhoStamps(top.fd.get()) != StampedBy::kAnybody;
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

absl::StatusOr<bool> PlannedWalk::LookAt(const std::string& name, const std::string& path,
                                         struct stat& status, Frame& below,
                                         absl::Status& opened) const {
  const Frame& frame = frames_.back();
  below.plan = frame.plan == nullptr ? nullptr : frame.plan->Child(name);
  const bool is_root = below.plan != nullptr && below.plan->is_root;
  bool is_pseudo = false;
  for (int look = 1;; ++look) {
    if (fstatat(frame.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return OsError(errno, "cannot stat", AbsolutePath(path));
    }
    const bool is_directory = S_ISDIR(status.st_mode);
    const bool is_wanted = frame.whole && !options_.excludes.Matches(path, is_directory);
    if (!is_wanted && below.plan == nullptr) return false;
    below.whole = is_root || (is_wanted && !IsOtherFileSystem(status));
    if (!is_directory || (!below.whole && below.plan == nullptr)) break;
    // Parents of a root need no more than the right to pass through.
    const int flags = (below.whole ? O_RDONLY : O_PATH) | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    below.fd = UniqueFd(openat(frame.fd.get(), name.c_str(), flags));
    const bool is_open = below.fd.valid() && fstat(below.fd.get(), &status) == 0;
    const int error = errno;
    // Another thing has the name by now.
    const bool is_gone = error == ENOENT || error == ENOTDIR || error == ELOOP;
    if (!is_open && is_gone && look < kMaxLooks) continue;
    if (!is_open) opened = OsError(error, "cannot open the directory", AbsolutePath(path));
    // What was opened may not be what was seen, as where something is mounted on demand.
    if (!is_root && IsOtherFileSystem(status)) below.whole = false;
    is_pseudo = is_open && !is_root && below.whole && BeginsPseudoFileSystem(below.fd, status);
    if (is_pseudo) below.whole = false;
    break;
  }
  if (!S_ISDIR(status.st_mode)) return true;
  const bool is_skipped = !skipped_.empty() && IsSkipped(status);
  const bool is_cut = is_pseudo || (frame.whole && !below.whole && IsOtherFileSystem(status));
  if (is_skipped || is_cut) LeaveOut(path);
  if (is_pseudo && !is_skipped && options_.on_pseudo) options_.on_pseudo(path);
  return !is_skipped;
}

bool PlannedWalk::Visit(const std::string& name, ScannedNode& scanned) {
  Node& node = scanned.node;
  node.path = JoinPath(frames_.back().path, name);
  struct stat status{};
  Frame below;
  absl::Status opened;
  const absl::StatusOr<bool> is_there = LookAt(name, node.path, status, below, opened);
  if (!is_there.ok()) Report(node.path, is_there.status());
  if (!is_there.ok() || !*is_there) return false;
  if (absl::Status described = Describe(name, status, below, scanned); !described.ok()) {
    Report(node.path, described);
    return false;
  }
  if (!opened.ok()) Report(node.path, opened);
  if (opened.ok() && below.fd.valid()) Enter(std::move(below), node);
  return true;
}

// Of what has the name, which is not opened: all that is asked of it is of one inode, whatever
// becomes of the name, or of a directory on the way to it. `status` is its own afterwards.
absl::StatusOr<UniqueFd> PlannedWalk::Handle(const std::string& name, const std::string& path,
                                             struct stat& status) const {
  const bool was_directory = S_ISDIR(status.st_mode);
  UniqueFd fd(openat(frames_.back().fd.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() || fstat(fd.get(), &status) != 0) {
    return OsError(errno, "cannot stat", AbsolutePath(path));
  }
  if (S_ISDIR(status.st_mode) == was_directory) return fd;
  return absl::FailedPreconditionError(
      ToAbsl(Cat("it was replaced by a ", was_directory ? "file" : "directory",
                 " during the backup: ", AbsolutePath(path))));
}

absl::Status PlannedWalk::Describe(const std::string& name, struct stat status, const Frame& below,
                                   ScannedNode& scanned) {
  Node& node = scanned.node;
  const std::string path = AbsolutePath(node.path);
  scanned.other_name_count = 0;
  scanned.may_be_link_to.clear();
  const bool is_directory = S_ISDIR(status.st_mode);
  UniqueFd handle;
  const Timestamp now = StampClockNow();
  if ((!is_directory && status.st_nlink > 1) || S_ISLNK(status.st_mode) ||
      (options_.read_xattrs && !below.fd.valid())) {
    KERF_ASSIGN_OR_RETURN(handle, Handle(name, node.path, status));
  }
  if (handle.valid() && !is_directory && status.st_nlink > 1) {
    scanned.other_name_count = status.st_nlink - 1;
    scanned.incarnation = IncarnationOf(handle.get(), status, now);
  }
  FillFromStat(status, owners_, node);
  scanned.identity = IdentityOf(status);
  // Also where an earlier kerf has believed it, and the snapshot before names it.
  if (!frames_.back().has_own_ctimes) scanned.identity.changed = {};
  if (node.kind == NodeKind::kSymlink) {
    // Nodes wait by the thousand: none is to keep the room for the longest target.
    std::array<char, PATH_MAX> target{};
    const ssize_t length = readlinkat(handle.get(), "", target.data(), target.size());
    if (length < 0) return OsError(errno, "cannot read the symlink", path);
    node.link_target.assign(target.data(), static_cast<std::size_t>(length));
  }
  if (!options_.read_xattrs) return absl::OkStatus();
  const bool is_open = below.fd.valid() && below.whole;
  const absl::Status read =
      is_open ? ReadXattrs(below.fd.get(), path, node.xattrs)
              : ReadXattrsOfHandle(below.fd.valid() ? below.fd : handle, path, node.xattrs);
  if (!read.ok()) {
    // The node is worth more than its attributes.
    node.xattrs.clear();
    Report(node.path, read);
  }
  return absl::OkStatus();
}

void PlannedWalk::Enter(Frame frame, const Node& node) {
  struct stat status{};
  if (fstat(frame.fd.get(), &status) == 0) frame.inode = {status.st_dev, status.st_ino};
  const Frame& above = frames_.back();
  frame.has_own_ctimes = frame.inode.device == above.inode.device
                             ? above.has_own_ctimes
                             : WhoStamps(frame.fd.get()) != StampedBy::kAnybody;
  frame.path = node.path;
  if (frame.whole) {
    std::vector<std::string> directories;
    const absl::Status listed = ListNames(frame.fd.get(), AbsolutePath(node.path), frame.names,
                                          options_.ahead_thread_count > 0 ? &directories : nullptr);
    if (!listed.ok()) Report(node.path, listed);
    LookAhead(frame, std::move(directories));
  } else if (frame.plan != nullptr) {
    for (const auto& [child, unused] : frame.plan->children) frame.names.push_back(child);
  }
  frames_.push_back(std::move(frame));
  if (frames_.size() > kMaxOpenDirectories) {
    frames_[frames_.size() - kMaxOpenDirectories].fd.Reset();
  }
}

// Not where the walk will not go, which may be as large as it likes.
void PlannedWalk::LookAhead(const Frame& frame, std::vector<std::string> directories) {
  if (options_.ahead_thread_count == 0) return;
  if (ahead_ == nullptr) ahead_ = std::make_unique<WalkAhead>(options_.ahead_thread_count);
  if (!ahead_->IsCold() && !options_.always_looks_ahead) return;
  std::vector<WalkAhead::Directory> offered;
  if (frame.names.size() >= kManyNames) offered.push_back({frame.path, frame.inode.device});
  std::sort(directories.begin(), directories.end());
  for (const std::string& name : directories) {
    if (offered.size() == WalkAhead::kMaxWaiting) break;
    std::string path = JoinPath(frame.path, name);
    if (options_.excludes.Matches(path, true)) continue;
    offered.push_back({std::move(path), frame.inode.device});
  }
  ahead_->Offer(frame.path, std::move(offered));
}

void PlannedWalk::Leave() {
  const UniqueFd child = std::move(frames_.back().fd);
  frames_.pop_back();
  if (frames_.empty() || frames_.back().fd.valid()) return;
  Frame& frame = frames_.back();
  if (absl::Status opened = Reopen(child, frame); !opened.ok()) {
    Report(frame.path, opened);
    frame.next = frame.names.size();
  }
}

// Of a child as long as that has not been moved: from "/" downwards, each of many levels would cost
// as many calls as there are above it.
absl::Status PlannedWalk::Reopen(const UniqueFd& child, Frame& frame) const {
  constexpr int kFlags = O_PATH | O_DIRECTORY;
  const auto is_it = [&frame](const UniqueFd& fd) {
    struct stat status{};
    return fd.valid() && fstat(fd.get(), &status) == 0 &&
           Inode{status.st_dev, status.st_ino} == frame.inode;
  };
  frame.fd = UniqueFd(openat(child.get(), "..", kFlags | O_CLOEXEC));
  if (is_it(frame.fd)) return absl::OkStatus();
  KERF_ASSIGN_OR_RETURN(frame.fd, OpenBelow(frames_.front().fd.get(), frame.path, kFlags));
  if (is_it(frame.fd)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      ToAbsl(Cat("it was replaced by another directory during the backup, and what was to come of "
                 "it is left out: ",
                 AbsolutePath(frame.path))));
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

std::string AbsolutePath(const std::string& node_path) { return "/" + node_path; }

}  // namespace kerf::agent
