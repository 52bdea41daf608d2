#include "client/fs/file_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "base/status.h"
#include "base/strings.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"

namespace kerf::agent {
namespace {

constexpr std::uint64_t kStatBlockBytes = 512;
// A file system stamps changes with the tick of the kernel (up to 10 ms), or with whole seconds;
// within that time two changes look like one.
constexpr std::int64_t kTickNanoseconds = 20'000'000;
constexpr std::int64_t kCoarseTickNanoseconds = 2'000'000'000;
constexpr std::int64_t kSecondNanoseconds = 1'000'000'000;
// A snapshot names every extent. What is behind the last of these counts as data.
constexpr std::size_t kMaxExtents = 65536;

Timestamp FromTimespec(const timespec& time) {
  return {time.tv_sec, static_cast<std::uint32_t>(time.tv_nsec)};
}

// True if a change right now could get the same time as the change at `changed`.
bool IsFresh(const Timestamp& changed) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t window = changed.nanoseconds == 0 ? kCoarseTickNanoseconds : kTickNanoseconds;
  const std::int64_t seconds = now.tv_sec - changed.seconds;
  if (seconds > kCoarseTickNanoseconds / kSecondNanoseconds + 1) return false;
  return seconds * kSecondNanoseconds + now.tv_nsec - changed.nanoseconds < window;
}

int OpenWithoutTouching(int directory, const std::string& path, int flags) {
  const int fd = openat(directory, path.c_str(), flags | O_NOATIME);
  // Only the owner and root may leave the access time alone.
  if (fd < 0 && errno == EPERM) return openat(directory, path.c_str(), flags);
  return fd;
}

// A file server has a lease on the file, for a client that caches it: opening waits until it is
// given back, which the kernel sees to (/proc/sys/fs/lease-break-time). It may only wait for what
// is a regular file for certain.
int OpenLeased(int directory, const std::string& path) {
  const UniqueFd handle(openat(directory, path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!handle.valid() || fstat(handle.get(), &status) != 0) return -1;
  if (!S_ISREG(status.st_mode)) {
    errno = ENXIO;
    return -1;
  }
  return OpenWithoutTouching(AT_FDCWD, Cat("/proc/self/fd/", handle.get()), O_RDONLY | O_CLOEXEC);
}

int OpenForReading(int directory, const std::string& path) {
  // O_NONBLOCK: should a fifo stand there by now, open must not wait for its writer.
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const int fd = OpenWithoutTouching(directory, path, kFlags);
  if (fd < 0 && errno == EWOULDBLOCK) return OpenLeased(directory, path);
  return fd;
}

absl::StatusOr<UniqueFd> OpenFile(const std::string& node_path, const std::string& absolute) {
  UniqueFd parent;
  int directory = AT_FDCWD;
  std::string path = absolute;
  if (absolute.size() >= kMaxPathCallBytes) {
    const UniqueFd root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    KERF_ASSIGN_OR_RETURN(parent, OpenBelow(root.get(), ParentOf(node_path), O_PATH | O_DIRECTORY));
    directory = parent.get();
    path = NameOf(node_path);
  }
  const int fd = OpenForReading(directory, path);
  if (fd >= 0) return UniqueFd(fd);
  const int error = errno;
  if (error == ELOOP || error == ENXIO) {
    return absl::FailedPreconditionError(ToAbsl(Cat("it is no longer a regular file: ", absolute)));
  }
  return OsError(error, "cannot open", absolute);
}

}  // namespace

absl::StatusOr<FileSource> FileSource::Open(const std::string& node_path,
                                            const NodeIdentity& expected) {
  FileSource source;
  source.path_ = "/" + node_path;
  KERF_ASSIGN_OR_RETURN(source.fd_, OpenFile(node_path, source.path_));
  struct stat status{};
  if (fstat(source.fd_.get(), &status) != 0) return OsError(errno, "cannot stat", source.path_);
  source.identity_ = {status.st_dev, status.st_ino, FromTimespec(status.st_ctim)};
  if (!S_ISREG(status.st_mode) || source.identity_.device != expected.device ||
      source.identity_.inode != expected.inode) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("it was replaced by another file during the backup: ", source.path_)));
  }
  source.modified_ = FromTimespec(status.st_mtim);
  source.size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  source.content_bytes_ = source.size_bytes_;
  source.extents_ = {{0, source.size_bytes_}};
  if (static_cast<std::uint64_t>(status.st_blocks) * kStatBlockBytes < source.size_bytes_) {
    KERF_RETURN_IF_ERROR(source.FindExtents());
  }
  return source;
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
  return filled;
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
  fresh_ = IsFresh(identity_.changed);
  return shrunk_ || static_cast<std::uint64_t>(status.st_size) != size_bytes_ ||
         FromTimespec(status.st_mtim) != modified_ ||
         FromTimespec(status.st_ctim) != identity_.changed;
}

void FileSource::Describe(Node& node, NodeIdentity& identity) const {
  node.size_bytes = size_bytes_;
  node.sparse = sparse_;
  node.extents = sparse_ ? extents_ : std::vector<Extent>();
  node.modified = modified_;
  identity = identity_;
  if (fresh_) identity.changed = {};
}

}  // namespace kerf::agent
