#include "client/fs/page_cache.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "client/fs/node_handle.h"
#include "client/fs/stamp_clock.h"

namespace kerf::agent {
namespace {

// A call for more is cut down to what the device takes in one request, which is this or more.
constexpr std::uint64_t kStepBytes = std::uint64_t{512} << 10;

// Of the device of the handle. Asked once for as long as a thread's files are on the same one: it
// may be a question to another machine.
bool KeepsWhatIsReadThere(const UniqueFd& handle, std::uint64_t device) {
  struct Asked {
    std::uint64_t device = 0;
    bool keeps = false;
    bool is_known = false;
  };
  thread_local Asked asked;
  if (!asked.is_known || asked.device != device) {
    asked = {device, KeepsWhatIsRead(handle.get()), true};
  }
  return asked.keeps;
}

// Nothing is opened but what was scanned, and that where it helps whoever opens it next.
UniqueFd OpenAsScanned(const std::string& node_path, const NodeIdentity& scanned, bool& keeps) {
  const absl::StatusOr<UniqueFd> handle = HandleOfNode(node_path);
  struct stat status{};
  if (!handle.ok() || fstat(handle->get(), &status) != 0) return {};
  if (status.st_dev != scanned.device || status.st_ino != scanned.inode) return {};
  keeps = KeepsWhatIsReadThere(*handle, scanned.device);
  if (!keeps) return {};
  absl::StatusOr<UniqueFd> fd = OpenFileOf(*handle, node_path, OpenFor::kHint);
  return fd.ok() ? *std::move(fd) : UniqueFd();
}

// Whether the kernel counts what a thread has it read.
bool AreReadsCounted() {
  static const bool are_counted = access("/proc/self/io", F_OK) == 0;
  return are_counted;
}

}  // namespace

long ReadsOfThread() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_inblock : 0;
}

bool KeepsWhatIsRead(int fd) {
  struct statfs status{};
  if (fstatfs(fd, &status) != 0) return false;
  const auto type = static_cast<std::uint64_t>(status.f_type) & UINT32_MAX;
  return type == NFS_SUPER_MAGIC || WhoStamps(fd) != StampedBy::kSomebodyElse;
}

void BeginReading(int fd, std::uint64_t offset, std::uint64_t size_bytes) {
  const std::uint64_t end = offset + size_bytes;
  for (; offset < end; offset += kStepBytes) {
    const std::uint64_t step_bytes = std::min(kStepBytes, end - offset);
    const int error = posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(step_bytes),
                                    POSIX_FADV_WILLNEED);
    if (error != 0) return;
  }
}

bool BeginReadingFile(const std::string& node_path, const NodeIdentity& scanned,
                      std::uint64_t size_bytes) {
  bool keeps = true;
  const UniqueFd fd = OpenAsScanned(node_path, scanned, keeps);
  if (!fd.valid()) return keeps;
  // What has no device of its own (a network, another file system below) may read uncounted.
  const bool is_counted = AreReadsCounted() && major(scanned.device) != 0;
  const long before = is_counted ? ReadsOfThread() : 0;
  BeginReading(fd.get(), 0, size_bytes);
  return !is_counted || ReadsOfThread() != before;
}

std::uint64_t PhysicalPlace(const std::string& node_path, const NodeIdentity& scanned) {
  bool keeps = false;
  const UniqueFd fd = OpenAsScanned(node_path, scanned, keeps);
  if (!fd.valid()) return 0;
  // A head, and behind it room for one extent.
  alignas(fiemap) std::array<std::byte, sizeof(fiemap) + sizeof(fiemap_extent)> memory{};
  fiemap head{};
  head.fm_length = FIEMAP_MAX_OFFSET;
  head.fm_extent_count = 1;
  std::memcpy(memory.data(), &head, sizeof head);
  if (ioctl(fd.get(), FS_IOC_FIEMAP, memory.data()) != 0) return 0;
  std::memcpy(&head, memory.data(), sizeof head);
  if (head.fm_mapped_extents == 0) return 0;
  fiemap_extent extent{};
  std::memcpy(&extent, memory.data() + sizeof head, sizeof extent);
  return (extent.fe_flags & FIEMAP_EXTENT_UNKNOWN) != 0 ? 0 : extent.fe_physical;
}

}  // namespace kerf::agent
