#include "client/fs/restore_node.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <random>
#include <span>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/fs/handle_link.h"
#include "client/fs/node_stat.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"
#include "client/fs/restore_metadata.h"

namespace kerf::agent {
namespace {

constexpr mode_t kPrivateFile = 0600;
constexpr mode_t kPrivateDirectory = 0700;
constexpr mode_t kOwnerAccess = S_IRWXU;

std::string Shown(const Node& node) { return "/" + node.path; }

absl::Status Damaged(const Node& node, std::string_view what) {
  return absl::DataLossError(ToAbsl(Cat("cannot restore ", Shown(node), ": ", what)));
}

std::string TemporaryName() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return absl::StrFormat(".kerf-restore-%016x", generator());
}

// Writes a stream of content to the extents of a file.
class ContentWriter {
 public:
  ContentWriter(int fd, const Node& node, ContentSum* sum) : fd_(fd), node_(node), sum_(sum) {
    if (!node.sparse && node.size_bytes > 0) whole_ = {0, node.size_bytes};
    extents_ = node.sparse ? std::span<const Extent>(node.extents)
                           : std::span<const Extent>(&whole_, node.size_bytes > 0 ? 1 : 0);
  }

  absl::Status CheckExtents() const {
    std::uint64_t end = 0;
    for (const Extent& extent : extents_) {
      const bool inside = extent.offset <= node_.size_bytes &&
                          extent.length_bytes <= node_.size_bytes - extent.offset;
      if (!inside || extent.offset < end) return Damaged(node_, "its extents contradict its size");
      end = extent.offset + extent.length_bytes;
    }
    return absl::OkStatus();
  }

  absl::Status Write(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      while (!extents_.empty() && position_ == extents_.front().length_bytes) {
        extents_ = extents_.subspan(1);
        position_ = 0;
      }
      if (extents_.empty()) return Damaged(node_, "there is more content than its size says");
      const Extent& extent = extents_.front();
      const std::size_t count =
          std::min<std::uint64_t>(bytes.size(), extent.length_bytes - position_);
      const ssize_t written =
          pwrite(fd_, bytes.data(), count, static_cast<off_t>(extent.offset + position_));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return OsError(errno, "cannot write", Shown(node_));
      if (sum_ != nullptr) sum_->Add(bytes.first(static_cast<std::size_t>(written)));
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      position_ += static_cast<std::uint64_t>(written);
      written_bytes_ += static_cast<std::uint64_t>(written);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() const {
    std::uint64_t missing = 0;
    for (const Extent& extent : extents_) missing += extent.length_bytes;
    if (missing != position_) return Damaged(node_, "there is less content than its size says");
    if (node_.sparse && ftruncate(fd_, static_cast<off_t>(node_.size_bytes)) != 0) {
      return OsError(errno, "cannot set the size of", Shown(node_));
    }
    return absl::OkStatus();
  }

  std::uint64_t written_bytes() const { return written_bytes_; }

 private:
  const int fd_;
  const Node& node_;
  // Null if nobody asks for it.
  ContentSum* const sum_;
  Extent whole_;
  // Those that are not full; position_ is in the first.
  std::span<const Extent> extents_;
  std::uint64_t position_ = 0;
  std::uint64_t written_bytes_ = 0;
};

absl::Status CopyContent(int fd, const Node& node, FileContent* content, ContentSum* sum,
                         NodeOutcome& outcome) {
  ContentWriter writer(fd, node, sum);
  KERF_RETURN_IF_ERROR(writer.CheckExtents());
  while (content != nullptr) {
    KERF_ASSIGN_OR_RETURN(const std::span<const std::uint8_t> bytes, content->Next());
    if (bytes.empty()) break;
    KERF_RETURN_IF_ERROR(writer.Write(bytes));
  }
  KERF_RETURN_IF_ERROR(writer.Finish());
  outcome.written_bytes = writer.written_bytes();
  return absl::OkStatus();
}

void TakeMetadata(const MetadataResult& metadata, NodeOutcome& outcome) {
  outcome.restored = true;
  outcome.status = metadata.status;
  outcome.unprivileged = metadata.unprivileged;
}

void MakeFile(int directory_fd, const std::string& name, const Node& node, FileContent* content,
              bool with_sum, NodeOutcome& outcome) {
  // Whoever wants a sum reads the file again.
  const int access = with_sum ? O_RDWR : O_WRONLY;
  constexpr int kFlags = O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(openat(directory_fd, name.c_str(), access | kFlags, kPrivateFile));
  if (!fd.valid()) {
    outcome.status = OsError(errno, "cannot create", Shown(node));
    return;
  }
  ContentSum sum;
  outcome.status = CopyContent(fd.get(), node, content, with_sum ? &sum : nullptr, outcome);
  if (!outcome.status.ok()) {
    unlinkat(directory_fd, name.c_str(), 0);
    return;
  }
  TakeMetadata(ApplyAttributes(fd.get(), node), outcome);
  outcome.file = UnsettledFile{std::move(fd), name, sum.value(), !outcome.status.ok()};
}

// Returns what the system call returns.
int MakeSpecial(int directory_fd, const std::string& name, const Node& node) {
  const dev_t device = static_cast<dev_t>(node.device_number);
  switch (node.kind) {
    case NodeKind::kSymlink:
      return symlinkat(node.link_target.c_str(), directory_fd, name.c_str());
    case NodeKind::kFifo:
      return mknodat(directory_fd, name.c_str(), S_IFIFO | kPrivateFile, 0);
    case NodeKind::kSocket:
      return mknodat(directory_fd, name.c_str(), S_IFSOCK | kPrivateFile, 0);
    case NodeKind::kCharDevice:
      return mknodat(directory_fd, name.c_str(), S_IFCHR | kPrivateFile, device);
    case NodeKind::kBlockDevice:
      return mknodat(directory_fd, name.c_str(), S_IFBLK | kPrivateFile, device);
    default:
      errno = EINVAL;
      return -1;
  }
}

void Make(int directory_fd, const std::string& name, const Node& node, FileContent* content,
          bool with_sum, NodeOutcome& outcome) {
  if (node.kind == NodeKind::kFile) {
    MakeFile(directory_fd, name, node, content, with_sum, outcome);
  } else if (MakeSpecial(directory_fd, name, node) != 0) {
    outcome.status = OsError(errno, "cannot create", Shown(node));
  } else {
    TakeMetadata(ApplyMetadataAt(directory_fd, name, node), outcome);
  }
}

enum class Decision { kReplace, kSkip, kFail };

// What to do about the existing entry `name`; sets outcome.status if it is kFail.
Decision Decide(int directory_fd, const std::string& name, const Node& node, OverwritePolicy policy,
                NodeOutcome& outcome) {
  struct stat status{};
  if (fstatat(directory_fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    outcome.status = OsError(errno, "cannot stat", Shown(node));
    return Decision::kFail;
  }
  if (S_ISDIR(status.st_mode)) {
    outcome.status = absl::AlreadyExistsError(
        Cat("a directory stands in the way of ", Shown(node), ": it is never replaced"));
    return Decision::kFail;
  }
  switch (policy) {
    case OverwritePolicy::kRefuse:
      outcome.status = absl::AlreadyExistsError(
          Cat(Shown(node), " exists in the target already (see --overwrite)"));
      return Decision::kFail;
    case OverwritePolicy::kNever:
      return Decision::kSkip;
    case OverwritePolicy::kIfChanged: {
      const bool same =
          node.kind == NodeKind::kFile && S_ISREG(status.st_mode) &&
          static_cast<std::uint64_t>(status.st_size) == node.size_bytes &&
          status.st_mtim.tv_sec == node.modified.seconds &&
          static_cast<std::uint32_t>(status.st_mtim.tv_nsec) == node.modified.nanoseconds;
      return same ? Decision::kSkip : Decision::kReplace;
    }
    case OverwritePolicy::kAlways:
      return Decision::kReplace;
  }
  return Decision::kFail;
}

// Calls `make(name)`, and where the name is taken does as the policy says: replacing means to make
// the node under another name and to rename it, a file not before it is settled.
void MakeOrReplace(int directory_fd, const Node& node, OverwritePolicy policy, NodeOutcome& outcome,
                   const std::function<void(const std::string& name)>& make) {
  const std::string name(NameOf(node.path));
  make(name);
  if (outcome.restored || outcome.status.code() != absl::StatusCode::kAlreadyExists) return;
  outcome.status = absl::OkStatus();
  const Decision decision = Decide(directory_fd, name, node, policy, outcome);
  outcome.skipped = decision == Decision::kSkip;
  if (decision != Decision::kReplace) return;
  const std::string temporary = TemporaryName();
  make(temporary);
  if (!outcome.restored || outcome.file.has_value()) return;
  if (renameat(directory_fd, temporary.c_str(), directory_fd, name.c_str()) != 0) {
    outcome.status = OsError(errno, "cannot replace", Shown(node));
    outcome.restored = false;
    unlinkat(directory_fd, temporary.c_str(), 0);
  }
}

// Opens an existing directory; one that its owner may not use gets the rights to.
absl::StatusOr<UniqueFd> EnterDirectory(int parent_fd, const std::string& name, const Node& node) {
  constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd handle(openat(parent_fd, name.c_str(), O_PATH | kFlags));
  struct stat status{};
  if (!handle.valid() || fstat(handle.get(), &status) != 0) {
    return OsError(errno == ELOOP ? ENOTDIR : errno, "cannot enter the directory", Shown(node));
  }
  absl::Status access;
  if ((status.st_mode & kOwnerAccess) != kOwnerAccess && status.st_uid == geteuid()) {
    const mode_t mode = (status.st_mode & 07777) | kOwnerAccess;
    if (ChangeModeOfHandle(handle.get(), mode) != 0) {
      access = HandleError(handle.get(), errno, "cannot get access to the directory", Shown(node));
    }
  }
  // Also where that failed: root needs no such right, and whoever may read it gets the others
  // below.
  UniqueFd fd(openat(handle.get(), ".", O_RDONLY | kFlags));
  if (!fd.valid()) {
    const int error = errno;
    KERF_RETURN_IF_ERROR(access);
    return OsError(error, "cannot open the directory", Shown(node));
  }
  KERF_RETURN_IF_ERROR(RestrictDirectory(fd.get(), node));
  return fd;
}

}  // namespace

NodeOutcome RestoreNode(int directory_fd, const Node& node, FileContent* content,
                        OverwritePolicy policy, bool with_sum) {
  NodeOutcome outcome;
  MakeOrReplace(directory_fd, node, policy, outcome, [&](const std::string& name) {
    Make(directory_fd, name, node, content, with_sum, outcome);
  });
  return outcome;
}

NodeOutcome RestoreHardLink(int source_directory_fd, const std::string& source_name,
                            int directory_fd, const Node& node, OverwritePolicy policy) {
  NodeOutcome outcome;
  struct stat source{};
  if (fstatat(source_directory_fd, source_name.c_str(), &source, AT_SYMLINK_NOFOLLOW) != 0) {
    outcome.status = OsError(errno, "cannot find the file to link to for", Shown(node));
    return outcome;
  }
  if (KindOf(source.st_mode) != node.kind) {
    outcome.status = absl::FailedPreconditionError(
        Cat("what ", Shown(node), " is a hard link to is of another kind"));
    return outcome;
  }
  struct stat existing{};
  const std::string own_name(NameOf(node.path));
  // Renaming one name of a file to another one of the same file does nothing.
  if (fstatat(directory_fd, own_name.c_str(), &existing, AT_SYMLINK_NOFOLLOW) == 0 &&
      existing.st_dev == source.st_dev && existing.st_ino == source.st_ino &&
      policy != OverwritePolicy::kRefuse) {
    outcome.skipped = true;
    return outcome;
  }
  MakeOrReplace(directory_fd, node, policy, outcome, [&](const std::string& name) {
    if (linkat(source_directory_fd, source_name.c_str(), directory_fd, name.c_str(), 0) == 0) {
      outcome.restored = true;
      outcome.status = absl::OkStatus();
    } else {
      outcome.status = OsError(errno, "cannot make the hard link", Shown(node));
    }
  });
  return outcome;
}

absl::StatusOr<UniqueFd> RestoreDirectory(int parent_fd, const Node& node, OverwritePolicy policy) {
  const std::string name(NameOf(node.path));
  if (mkdirat(parent_fd, name.c_str(), kPrivateDirectory) == 0) {
    return EnterDirectory(parent_fd, name, node);
  }
  if (errno != EEXIST) return OsError(errno, "cannot make the directory", Shown(node));
  absl::StatusOr<UniqueFd> entered = EnterDirectory(parent_fd, name, node);
  // ENOTDIR is FailedPrecondition.
  if (entered.ok() || entered.status().code() != absl::StatusCode::kFailedPrecondition) {
    return entered;
  }
  if (policy == OverwritePolicy::kRefuse || policy == OverwritePolicy::kNever) {
    return absl::AlreadyExistsError(Cat("something else stands in the way of the directory ",
                                        Shown(node),
                                        ": it and all below it is left out (see --overwrite)"));
  }
  if (unlinkat(parent_fd, name.c_str(), 0) != 0 ||
      mkdirat(parent_fd, name.c_str(), kPrivateDirectory) != 0) {
    return OsError(errno, "cannot replace by a directory:", Shown(node));
  }
  return EnterDirectory(parent_fd, name, node);
}

}  // namespace kerf::agent
