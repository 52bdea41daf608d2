#include "server/index/disk_room.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace kerf {
namespace {

constexpr std::size_t kWriteBytes = 64 * kKiB;

absl::Status DiskError(int error, const std::string& path) {
  const std::string text = Cat(path, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(ToAbsl(text));
    case ENOENT:
      return absl::NotFoundError(ToAbsl(text));
    default:
      return absl::UnavailableError(ToAbsl(text));
  }
}

// 0, or what errno says.
int WriteZeros(int file, std::uint64_t bytes) {
  const std::array<char, kWriteBytes> zeros{};
  while (bytes > 0) {
    const ssize_t written = write(file, zeros.data(), std::min<std::uint64_t>(bytes, zeros.size()));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes -= static_cast<std::uint64_t>(written);
  }
  return 0;
}

// A file of `bytes` for which the room is there, whatever comes.
absl::Status MakeFile(const std::string& path, std::uint64_t bytes) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return DiskError(errno, path);
  int error = fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  // Not every file system has it; and one that has it may still not be able to write.
  if (error == EOPNOTSUPP) error = WriteZeros(file.get(), bytes);
  if (error == 0) error = WriteZeros(file.get(), std::min<std::uint64_t>(bytes, kWriteBytes));
  if (error == 0 && fsync(file.get()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(path.c_str());
  return DiskError(error, path);
}

}  // namespace

absl::StatusOr<DiskState> ReadDisk(const std::string& folder) {
  struct statvfs state{};
  if (statvfs(folder.c_str(), &state) != 0) return DiskError(errno, folder);
  // Some is kept for root alone.
  const std::uint64_t blocks = geteuid() == 0 ? state.f_bfree : state.f_bavail;
  return DiskState{.free_bytes = blocks * state.f_frsize,
                   .is_read_only = (state.f_flag & ST_RDONLY) != 0};
}

absl::Status ProbeDisk(const std::string& folder, std::uint64_t bytes) {
  // Else it would take what room there is from others, if only for a moment.
  KERF_ASSIGN_OR_RETURN(const DiskState disk, ReadDisk(folder));
  if (disk.free_bytes < bytes) return DiskError(ENOSPC, folder);
  const std::string path = folder + "/probe";
  KERF_RETURN_IF_ERROR(MakeFile(path, bytes));
  unlink(path.c_str());
  return absl::OkStatus();
}

bool DiskReserve::is_held() const {
  struct stat state{};
  return stat(path_.c_str(), &state) == 0 && static_cast<std::uint64_t>(state.st_size) >= bytes_;
}

absl::Status DiskReserve::Hold() const {
  return is_held() ? absl::OkStatus() : MakeFile(path_, bytes_);
}

void DiskReserve::Free() const { unlink(path_.c_str()); }

}  // namespace kerf
