#include "e2e/fault_fs/unflushed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf::fault_fs {
namespace {

constexpr off_t kZeroBytes = 128 * 1024;

std::optional<std::pair<dev_t, ino_t>> InodeOf(int file) {
  struct stat found{};
  if (fstat(file, &found) != 0) return std::nullopt;
  return std::pair(found.st_dev, found.st_ino);
}

}  // namespace

void Unflushed::Wrote(int file, off_t offset, off_t length_bytes) {
  const auto inode = InodeOf(file);
  if (!inode || length_bytes <= 0) return;
  const std::lock_guard lock(mutex_);
  std::vector<Range>& ranges = written_[*inode];
  if (!ranges.empty() && ranges.back().end == offset) {
    ranges.back().end = offset + length_bytes;
  } else {
    ranges.push_back({offset, offset + length_bytes});
  }
}

void Unflushed::Kept(int file) {
  const auto inode = InodeOf(file);
  const std::lock_guard lock(mutex_);
  if (inode) written_.erase(*inode);
}

void Unflushed::Drop(int file) {
  const auto inode = InodeOf(file);
  const std::lock_guard lock(mutex_);
  const auto written = inode ? written_.find(*inode) : written_.end();
  if (written == written_.end()) return;
  // Whoever drops it may have opened it to read.
  const UniqueFd out(open(Cat("/proc/self/fd/", file).c_str(), O_WRONLY | O_CLOEXEC));
  struct stat found{};
  fstat(file, &found);
  const std::vector<char> zeros(kZeroBytes);
  for (const Range& range : written->second) {
    const off_t end = std::min(range.end, found.st_size);
    for (off_t at = range.begin; at < end; at += kZeroBytes) {
      const auto size_bytes = static_cast<std::size_t>(std::min(kZeroBytes, end - at));
      if (pwrite(out.get(), zeros.data(), size_bytes, at) < 0) break;
    }
  }
  written_.erase(written);
}

}  // namespace kerf::fault_fs
