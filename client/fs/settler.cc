#include "client/fs/settler.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <span>
#include <utility>

#include "base/page_bytes.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/fs/content_sum.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"
#include "client/fs/restore_metadata.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

std::string Shown(const WaitingFile& file) { return "/" + file.node.path; }

absl::Status NotAsWritten(const WaitingFile& file, std::string_view what) {
  return absl::DataLossError(Cat("what was written to ", Shown(file), " cannot be read back: ",
                                 what, "; the disk of the target is not to be trusted"));
}

// Adds the bytes of the extent to the sum.
absl::Status AddExtent(const WaitingFile& file, Extent extent, std::span<std::uint8_t> buffer,
                       ContentSum& sum) {
  while (extent.length_bytes > 0) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), extent.length_bytes);
    const ssize_t count =
        pread(file.file.fd.get(), buffer.data(), wanted, static_cast<off_t>(extent.offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return OsError(errno, "cannot read back", Shown(file));
    if (count == 0) return NotAsWritten(file, "it ends before");
    sum.Add(buffer.first(static_cast<std::size_t>(count)));
    extent.offset += static_cast<std::uint64_t>(count);
    extent.length_bytes -= static_cast<std::uint64_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace

void Settler::Add(WaitingFile file) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !IsFull(); });
  group_bytes_ += file.weight_bytes;
  group_.push_back(std::move(file));
  if (!IsFull()) return;
  changed_.wait(lock, [this] { return !settling_; });
  settling_ = true;
  std::vector<WaitingFile> group = std::exchange(group_, {});
  group_bytes_ = 0;
  changed_.notify_all();
  lock.unlock();
  Settle(std::move(group));
  lock.lock();
  settling_ = false;
  changed_.notify_all();
}

void Settler::Finish() {
  Settle(std::exchange(group_, {}));
  group_bytes_ = 0;
}

void Settler::Settle(std::vector<WaitingFile> group) {
  std::vector<absl::Status> statuses(group.size());
  if (options_.sync) Sync(group, statuses);
  for (std::size_t index = 0; index < group.size(); ++index) {
    WaitingFile& file = group[index];
    SettledFile settled{.status = statuses[index]};
    if (settled.status.ok()) settled = Complete(file);
    if (!settled.is_there) unlinkat(file.directory->get(), file.file.name.c_str(), 0);
    options_.on_settled(file, settled);
    // One descriptor after the other, not all at the end.
    file = {};
  }
}

void Settler::Sync(std::span<const WaitingFile> group, std::vector<absl::Status>& statuses) {
  // By the device: there may be file systems below the target.
  std::map<dev_t, std::vector<std::size_t>> devices;
  for (std::size_t index = 0; index < group.size(); ++index) {
    struct stat status{};
    if (fstat(group[index].file.fd.get(), &status) != 0) {
      statuses[index] = OsError(errno, "cannot stat", Shown(group[index]));
      continue;
    }
    devices[status.st_dev].push_back(index);
  }
  for (const auto& [device, indexes] : devices) {
    const int any_fd = group[indexes.front()].file.fd.get();
    if (options_.durability.SyncsAsAWhole(any_fd) &&
        options_.durability.SyncFileSystem(any_fd) == 0) {
      continue;
    }
    // File by file: which of them is not there? That of another process is not ours.
    for (const std::size_t index : indexes) {
      const int error = options_.durability.SyncFile(group[index].file.fd.get());
      if (error != 0) statuses[index] = OsError(error, "cannot make durable", Shown(group[index]));
    }
  }
}

SettledFile Settler::Complete(const WaitingFile& file) const {
  const int fd = file.file.fd.get();
  if (absl::Status status = Prove(file); !status.ok()) return {.status = std::move(status)};
  absl::Status timed = file.file.lacks_attributes ? absl::OkStatus() : ApplyTime(fd, file.node);
  if (file.file.lacks_attributes || !timed.ok()) {
    absl::Status status = AvoidTime(fd, file.node);
    if (!status.ok()) return {.status = std::move(status)};
  }
  const std::string name(NameOf(file.node.path));
  const int directory_fd = file.directory->get();
  if (file.file.name != name &&
      renameat(directory_fd, file.file.name.c_str(), directory_fd, name.c_str()) != 0) {
    return {.status = OsError(errno, "cannot replace", Shown(file))};
  }
  return {.status = std::move(timed), .is_there = true};
}

absl::Status Settler::Prove(const WaitingFile& file) const {
  if (const int error = options_.durability.Flush(file.file.fd.get()); error != 0) {
    return OsError(error, "cannot write all of", Shown(file));
  }
  return options_.verify ? Verify(file) : absl::OkStatus();
}

absl::Status Settler::Verify(const WaitingFile& file) const {
  const int fd = file.file.fd.get();
  // Pages that are on the disk are dropped, so that they are read from there.
  if (options_.sync) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  struct stat status{};
  if (fstat(fd, &status) != 0) return OsError(errno, "cannot stat", Shown(file));
  if (static_cast<std::uint64_t>(status.st_size) != file.node.size_bytes) {
    return NotAsWritten(file, "its size is another one");
  }
  PageVector buffer(std::min<std::uint64_t>(kReadBytes, file.node.size_bytes));
  ContentSum sum;
  const Extent whole{0, file.node.size_bytes};
  const std::span<const Extent> extents =
      file.node.sparse ? std::span<const Extent>(file.node.extents) : std::span(&whole, 1);
  for (const Extent& extent : extents) {
    KERF_RETURN_IF_ERROR(AddExtent(file, extent, buffer, sum));
  }
  return sum.value() == file.file.sum ? absl::OkStatus()
                                      : NotAsWritten(file, "its content is another one");
}

}  // namespace kerf::agent
