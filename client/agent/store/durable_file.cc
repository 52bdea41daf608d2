#include "client/agent/store/durable_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

std::mutex seeded_mutex;
std::optional<Random> seeded;
std::atomic<bool> skip_sync = false;

}  // namespace

absl::Status ErrnoStatus(int error_number, std::string_view what) {
  const std::string message = Cat(what, ": ", std::strerror(error_number));
  switch (error_number) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnknownError(message);
  }
}

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

int OwnedFd::Release() { return std::exchange(fd_, -1); }

absl::Status SyncFile(int fd, std::string_view what) {
  if (!skip_sync && fsync(fd) != 0) return ErrnoStatus(errno, what);
  return absl::OkStatus();
}

void StartWriteback(int fd, std::uint64_t offset, std::uint64_t size_bytes) {
  if (skip_sync) return;
  sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(size_bytes),
                  SYNC_FILE_RANGE_WRITE);
}

void SkipSyncForTest() { skip_sync = true; }

absl::Status SyncDirectory(const std::string& directory) {
  const OwnedFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, directory);
  return SyncFile(fd.get(), directory);
}

absl::Status PublishFile(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, to);
  return SyncDirectory(to.substr(0, to.rfind('/')));
}

absl::Status WriteFileDurably(const std::string& path, const std::string& temporary_directory,
                              std::span<const std::uint8_t> bytes) {
  const std::string temporary = Cat(temporary_directory, "/", RandomHex());
  const OwnedFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) return ErrnoStatus(errno, temporary);
  absl::Status status = PWriteExactly(fd.get(), bytes, 0, temporary);
  if (status.ok()) status = SyncFile(fd.get(), temporary);
  if (status.ok()) status = PublishFile(temporary, path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

absl::StatusOr<std::vector<std::uint8_t>> ReadWholeFile(const std::string& path,
                                                        std::uint64_t max_bytes) {
  const OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (fd.get() < 0 || fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  const auto size_bytes = static_cast<std::uint64_t>(info.st_size);
  if (size_bytes > max_bytes) {
    return absl::OutOfRangeError(Cat(path, ": ", size_bytes, " bytes; at most ", max_bytes,
                                     " are expected: it is damaged or not of kerf"));
  }
  std::vector<std::uint8_t> bytes(size_bytes);
  KERF_RETURN_IF_ERROR(PReadExactly(fd.get(), bytes, 0, path));
  return bytes;
}

absl::Status PReadExactly(int fd, std::span<std::uint8_t> bytes, std::uint64_t offset,
                          std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t count = pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, what);
    if (count == 0) return absl::DataLossError(Cat(what, ": it was cut short"));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status PWriteExactly(int fd, std::span<const std::uint8_t> bytes, std::uint64_t offset,
                           std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, what);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return absl::OkStatus();
}

void SeedRandomHexForTest(std::uint64_t seed) {
  const std::lock_guard lock(seeded_mutex);
  seeded.emplace(seed);
}

std::string RandomHex() {
  std::uint8_t bytes[16];
  {
    const std::lock_guard lock(seeded_mutex);
    if (seeded.has_value()) {
      seeded->Fill(bytes);
    } else {
      KERF_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
    }
  }
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint8_t byte : bytes) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

}  // namespace kerf::agent
