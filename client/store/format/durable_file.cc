#include "client/store/format/durable_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/hex.h"
#include "base/random.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unfinished_paths.h"
#include "client/store/format/file_hook.h"

namespace kerf::agent {
namespace {

// Few, so that a simulation's packs share directories.
constexpr std::uint8_t kSeededPrefixCount = 4;

std::mutex seeded_mutex;
std::optional<Random> seeded;
std::atomic<bool> skip_sync = false;
std::atomic<FileHook*> file_hook = nullptr;

absl::Status Before(FileOperation::Kind kind, std::string_view path, std::string_view to = {},
                    std::uint64_t offset = 0, std::span<const std::uint8_t> bytes = {}) {
  FileHook* const hook = file_hook.load();
  if (hook == nullptr) return absl::OkStatus();
  return hook->Before({kind, path, to, offset, bytes});
}

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};

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
    case EXDEV:
      return absl::FailedPreconditionError(Cat(
          message, ": a file is made in one folder and renamed into the other, so both have to ",
          "be on one file system; a store is moved as a whole"));
    case EOPNOTSUPP:
    case ENOSYS:
      return absl::UnimplementedError(message);
    default:
      return absl::UnknownError(message);
  }
}

void SetFileHookForTest(FileHook* hook) { file_hook = hook; }

absl::StatusOr<UniqueFd> CreateNewFile(const std::string& path) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kCreate, path));
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, path);
  AddUnfinishedPath(path);
  return fd;
}

absl::Status SyncFile(int fd, const std::string& path) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kSync, path));
  if (!skip_sync && fsync(fd) != 0) return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

void StartWriteback(int fd, std::uint64_t offset, std::uint64_t size_bytes) {
  if (skip_sync) return;
  sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(size_bytes),
                  SYNC_FILE_RANGE_WRITE);
}

void SkipSyncForTest() { skip_sync = true; }

absl::Status SyncDirectory(const std::string& directory) {
  const absl::Status hooked = Before(FileOperation::Kind::kSyncDirectory, directory);
  if (!hooked.ok() && !absl::IsUnimplemented(hooked)) return hooked;
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, directory);
  if (skip_sync) return absl::OkStatus();
  if (hooked.ok() && fsync(fd.get()) == 0) return absl::OkStatus();
  const bool is_known = hooked.ok() && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS;
  // Some file systems sync no directories. All of them together they do, and that takes longer.
  if (is_known || syncfs(fd.get()) != 0) return ErrnoStatus(errno, directory);
  return absl::OkStatus();
}

std::string DirectoryOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status MakeDirectory(const std::string& path) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kMakeDirectory, path));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

bool MayExist(const std::string& path) {
  if (!Before(FileOperation::Kind::kLook, path).ok()) return true;
  return access(path.c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kListDirectory, path));
  const std::unique_ptr<DIR, DirectoryCloser> directory(opendir(path.c_str()));
  if (directory == nullptr) return ErrnoStatus(errno, path);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (errno != 0) return ErrnoStatus(errno, path);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status PublishFile(const std::string& from, const std::string& to) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kRename, from, to));
  if (rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, to);
  ForgetUnfinishedPath(from);
  return SyncDirectory(DirectoryOf(to));
}

static absl::Status RenameUnlessThere(const std::string& from, const std::string& to) {
  if (access(to.c_str(), F_OK) == 0) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kRename, from, to));
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 ||
      errno == EEXIST) {
    return absl::OkStatus();
  }
  if (errno != EINVAL && errno != ENOSYS) return ErrnoStatus(errno, to);
  return absl::UnimplementedError(
      Cat(to, ": this file system has neither hard links nor names that replace nothing: ",
          "agents that make a store at once could not agree; keep the store on another one"));
}

static absl::Status Link(const std::string& from, const std::string& to) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kLink, from, to));
  return link(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, to);
}

absl::Status LinkFile(const std::string& from, const std::string& to) {
  KERF_RETURN_IF_ERROR(Link(from, to));
  return SyncDirectory(DirectoryOf(to));
}

absl::Status PublishUnlessThere(const std::string& from, const std::string& to) {
  absl::Status status = Link(from, to);
  if (absl::IsAlreadyExists(status)) status = absl::OkStatus();
  // FAT and some file servers have no hard links: the first says EPERM.
  if (absl::IsUnimplemented(status) || absl::IsPermissionDenied(status)) {
    status = RenameUnlessThere(from, to);
  }
  KERF_RETURN_IF_ERROR(status);
  return SyncDirectory(DirectoryOf(to));
}

absl::Status RemoveFile(const std::string& path) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kRemove, path));
  if (unlink(path.c_str()) != 0) return ErrnoStatus(errno, path);
  ForgetUnfinishedPath(path);
  return absl::OkStatus();
}

absl::Status WriteFileDurably(const std::string& path, const std::string& temporary_directory,
                              std::span<const std::uint8_t> bytes) {
  const std::string temporary = Cat(temporary_directory, "/", RandomHex());
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, CreateNewFile(temporary));
  absl::Status status = PWriteExactly(fd.get(), bytes, 0, temporary);
  if (status.ok()) status = SyncFile(fd.get(), temporary);
  if (status.ok()) status = PublishFile(temporary, path);
  if (!status.ok()) RemoveFile(temporary).IgnoreError();
  return status;
}

absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kOpen, path));
  constexpr int kFlags = O_RDONLY | O_CLOEXEC;
  UniqueFd fd(open(path.c_str(), kFlags | O_NONBLOCK));
  struct stat info{};
  // A file server may have a lease on it: then it is no fifo, and worth waiting for.
  if (!fd.valid() && errno == EWOULDBLOCK && stat(path.c_str(), &info) == 0 &&
      S_ISREG(info.st_mode)) {
    fd = UniqueFd(open(path.c_str(), kFlags));
  }
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return absl::DataLossError(Cat(path, ": it is no regular file"));
  return fd;
}

absl::StatusOr<std::vector<std::uint8_t>> ReadWholeFile(const std::string& path,
                                                        std::uint64_t max_bytes) {
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  const auto size_bytes = static_cast<std::uint64_t>(info.st_size);
  if (size_bytes > max_bytes) {
    return absl::OutOfRangeError(Cat(path, ": ", size_bytes, " bytes; at most ", max_bytes,
                                     " are expected: it is damaged or not of kerf"));
  }
  std::vector<std::uint8_t> bytes(size_bytes);
  KERF_RETURN_IF_ERROR(PReadExactly(fd.get(), bytes, 0, path));
  return bytes;
}

void DropFromPageCache(int fd) { posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); }

absl::Status PReadExactly(int fd, std::span<std::uint8_t> bytes, std::uint64_t offset,
                          const std::string& path) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kRead, path, {}, offset, bytes));
  while (!bytes.empty()) {
    const ssize_t count = pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, path);
    if (count == 0) return absl::DataLossError(Cat(path, ": it was cut short"));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status PWriteExactly(int fd, std::span<const std::uint8_t> bytes, std::uint64_t offset,
                           const std::string& path) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kWrite, path, {}, offset, bytes));
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, path);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status AllocateFile(int fd, std::uint64_t size_bytes, const std::string& path) {
  KERF_RETURN_IF_ERROR(Before(FileOperation::Kind::kWrite, path));
  while (fallocate(fd, 0, 0, static_cast<off_t>(size_bytes)) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, path);
  }
  constexpr std::uint64_t kBlockBytes = 512;
  struct stat info{};
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, path);
  if (static_cast<std::uint64_t>(info.st_blocks) * kBlockBytes >= size_bytes) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(Cat(path, ": its room is not kept"));
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
      bytes[0] %= kSeededPrefixCount;
    } else {
      KERF_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
    }
  }
  return HexOf(bytes);
}

}  // namespace kerf::agent
