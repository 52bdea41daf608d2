#include "client/fs/file_source.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/fs/node_handle.h"
#include "client/fs/node_stat.h"
#include "client/fs/os_error.h"
#include "client/fs/owner_names.h"
#include "client/fs/page_cache.h"
#include "client/fs/stamp_clock.h"
#include "client/fs/xattrs.h"

namespace kerf::agent {
namespace {

constexpr std::uint64_t kStatBlockBytes = 512;
// A snapshot names every extent. What is behind the last of these counts as data.
constexpr std::size_t kMaxExtents = 65536;
// What is read ahead at once: a call for every few pages would be most of the work.
constexpr std::uint64_t kAheadStepBytes = std::uint64_t{1} << 20;
// What is looked for in a file of size 0: most of what /proc has is no longer.
constexpr std::size_t kLookBytes = 4096;
// Of a file in which the kernel shows its state no more is read behind the size: some are as long
// as an address space (/proc/PID/pagemap), and none is what anybody backs up for its length.
constexpr std::uint64_t kMaxStateBytes = std::uint64_t{64} << 20;

bool IsStateOfTheKernel(int fd) {
  struct statfs status{};
  if (fstatfs(fd, &status) != 0) return false;
  const auto type = static_cast<std::uint64_t>(status.f_type) & UINT32_MAX;
  return type == PROC_SUPER_MAGIC || type == SYSFS_MAGIC || type == DEBUGFS_MAGIC ||
         type == TRACEFS_MAGIC;
}

}  // namespace

absl::StatusOr<FileSource> FileSource::Open(const std::string& node_path,
                                            const NodeIdentity& scanned) {
  FileSource source;
  source.path_ = "/" + node_path;
  KERF_ASSIGN_OR_RETURN(const UniqueFd handle, HandleOfNode(node_path));
  KERF_ASSIGN_OR_RETURN(source.fd_, OpenFileOf(handle, node_path, OpenFor::kReading));
  // Before the look at the file: what is written from then on is read, or moves its ctime.
  source.opened_at_ = StampClockNow();
  struct stat& status = source.opened_;
  if (fstat(source.fd_.get(), &status) != 0) return OsError(errno, "cannot stat", source.path_);
  source.identity_ = IdentityOf(status);
  source.is_settled_ = IsSettledOn(source.fd_.get(), source.identity_.changed, source.opened_at_);
  source.is_as_scanned_ = source.is_settled_ && source.identity_ == scanned;
  source.size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  source.content_bytes_ = source.size_bytes_;
  source.extents_ = {{0, source.size_bytes_}};
  if (static_cast<std::uint64_t>(status.st_blocks) * kStatBlockBytes < source.size_bytes_) {
    KERF_RETURN_IF_ERROR(source.FindExtents());
  }
  return source;
}

bool FileSource::IsSameFileAs(const Incarnation& scanned) const {
  return IsSameFile(scanned, IncarnationOf(fd_.get(), opened_, opened_at_));
}

absl::Status FileSource::ReadXattrs(std::vector<Xattr>& xattrs) const {
  return agent::ReadXattrs(fd_.get(), path_, xattrs);
}

absl::Status FileSource::FindExtents() {
  std::vector<Extent> extents;
  std::uint64_t content_bytes = 0;
  std::uint64_t position = 0;
  while (position < size_bytes_) {
    const off_t data = lseek(fd_.get(), static_cast<off_t>(position), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // a hole up to the end
    // A file system that cannot tell has no holes.
    if (data < 0 && errno == EINVAL) return absl::OkStatus();
    if (data < 0) return OsError(errno, "cannot look for holes in", path_);
    const off_t hole = lseek(fd_.get(), data, SEEK_HOLE);
    if (hole < 0 && errno != ENXIO) return OsError(errno, "cannot look for holes in", path_);
    const std::uint64_t begin = static_cast<std::uint64_t>(data);
    const bool to_the_end = hole < 0 || extents.size() + 1 == kMaxExtents;
    const std::uint64_t end =
        to_the_end ? size_bytes_ : std::min(static_cast<std::uint64_t>(hole), size_bytes_);
    if (begin >= end) break;
    extents.push_back({begin, end - begin});
    content_bytes += end - begin;
    position = end;
  }
  // Compressed, or stored in the inode: small, but without holes.
  if (content_bytes == size_bytes_) return absl::OkStatus();
  sparse_ = true;
  extents_ = std::move(extents);
  content_bytes_ = content_bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> FileSource::Read(std::span<std::uint8_t> buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size() && extent_index_ < extents_.size()) {
    const Extent& extent = extents_[extent_index_];
    if (extent_position_ == extent.length_bytes) {
      ++extent_index_;
      extent_position_ = 0;
      continue;
    }
    const std::size_t wanted =
        std::min<std::uint64_t>(buffer.size() - filled, extent.length_bytes - extent_position_);
    const ssize_t count = pread(fd_.get(), buffer.data() + filled, wanted,
                                static_cast<off_t>(extent.offset + extent_position_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return OsError(errno, "cannot read", path_);
    if (count == 0) {
      EndEarly();
      break;
    }
    filled += static_cast<std::size_t>(count);
    extent_position_ += static_cast<std::uint64_t>(count);
  }
  return filled + ReadBehindTheSize(buffer.subspan(filled));
}

bool FileSource::MayHaveContent() {
  if (content_bytes_ > 0) return true;
  looked_at_.resize(kLookBytes);
  looked_at_.resize(PieceBehindTheSize(looked_at_));
  return !looked_at_.empty();
}

std::size_t FileSource::ReadBehindTheSize(std::span<std::uint8_t> buffer) {
  const std::size_t known = std::min(looked_at_.size(), buffer.size());
  std::copy_n(looked_at_.begin(), known, buffer.begin());
  looked_at_.erase(looked_at_.begin(), looked_at_.begin() + static_cast<std::ptrdiff_t>(known));
  std::size_t filled = known;
  while (filled < buffer.size() && !is_at_end_) {
    filled += PieceBehindTheSize(buffer.subspan(filled));
  }
  return filled;
}

// What the next call of the system gives there; 0: it is the end.
std::size_t FileSource::PieceBehindTheSize(std::span<std::uint8_t> buffer) {
  while (!is_at_end_ && !shrunk_) {
    const ssize_t count =
        pread(fd_.get(), buffer.data(), buffer.size(), static_cast<off_t>(size_bytes_));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      EndBehindTheSize(count < 0 ? errno : 0);
      break;
    }
    struct stat status{};
    // Where the size moves it is no wrong one, and whoever writes may do so for ever: Finish tells.
    if (fstat(fd_.get(), &status) != 0 || status.st_size != opened_.st_size) break;
    CountBehindTheSize(static_cast<std::uint64_t>(count));
    return static_cast<std::size_t>(count);
  }
  is_at_end_ = true;
  return 0;
}

void FileSource::CountBehindTheSize(std::uint64_t count) {
  if (extents_.empty() || extents_.back().offset + extents_.back().length_bytes != size_bytes_) {
    extents_.push_back({size_bytes_, 0});
  }
  extents_.back().length_bytes += count;
  size_bytes_ += count;
  // Reading extents is over.
  extent_index_ = extents_.size();
  extent_position_ = 0;
  const std::uint64_t told_bytes = static_cast<std::uint64_t>(opened_.st_size);
  if (size_bytes_ - told_bytes < kMaxStateBytes || !IsStateOfTheKernel(fd_.get())) return;
  is_at_end_ = true;
  cut_short_ = absl::OutOfRangeError(ToAbsl(
      Cat("it gives more than ", kMaxStateBytes,
          " bytes, which no file of the kernel's own state is backed up beyond: the snapshot "
          "has its beginning (--exclude leaves it out)")));
}

void FileSource::EndBehindTheSize(int error) {
  const bool is_all_there =
      opened_.st_size > 0 && size_bytes_ == static_cast<std::uint64_t>(opened_.st_size);
  // A program behind a file system may call a read behind the end an error.
  if (error == 0 || is_all_there) return;
  cut_short_ = OsError(error,
                       Cat("it may have more than the ", size_bytes_,
                           " bytes that were read, for its size is wrong, and cannot read on in"),
                       path_);
}

void FileSource::ReadAhead(std::uint64_t bytes) {
  if (extent_index_ == extents_.size()) return;
  const Extent& extent = extents_[extent_index_];
  const std::uint64_t extent_end = extent.offset + extent.length_bytes;
  const std::uint64_t position = extent.offset + extent_position_;
  const std::uint64_t end = position + std::min(bytes, extent_end - position);
  const std::uint64_t begin = std::max(ahead_end_, position);
  if (begin >= end || (end - begin < kAheadStepBytes && end < extent_end)) return;
  if (!keeps_what_is_read_.has_value()) keeps_what_is_read_ = KeepsWhatIsRead(fd_.get());
  if (!*keeps_what_is_read_) return;
  BeginReading(fd_.get(), begin, end - begin);
  ahead_end_ = end;
}

void FileSource::EndEarly() {
  shrunk_ = true;
  Extent& last = extents_[extent_index_];
  size_bytes_ = last.offset + extent_position_;
  last.length_bytes = extent_position_;
  extents_.resize(extent_index_ + (extent_position_ > 0 ? 1 : 0));
  extent_index_ = extents_.size();
  extent_position_ = 0;
}

absl::StatusOr<bool> FileSource::Finish() {
  struct stat status{};
  if (fstat(fd_.get(), &status) != 0) return OsError(errno, "cannot stat", path_);
  fd_.Reset();
  return shrunk_ || status.st_size != opened_.st_size ||
         ModifiedOf(status) != ModifiedOf(opened_) ||
         IdentityOf(status).changed != identity_.changed;
}

void FileSource::Describe(Node& node, NodeIdentity& identity) const {
  node.size_bytes = size_bytes_;
  node.sparse = sparse_;
  node.extents = sparse_ ? extents_ : std::vector<Extent>();
  node.mode = opened_.st_mode & 07777;
  node.modified = ModifiedOf(opened_);
  if (node.uid != opened_.st_uid || node.gid != opened_.st_gid) {
    OwnerNames owners;
    node.uid = opened_.st_uid;
    node.gid = opened_.st_gid;
    node.user = owners.User(node.uid);
    node.group = owners.Group(node.gid);
  }
  identity = identity_;
  if (!is_settled_) identity.changed = {};
}

}  // namespace kerf::agent
