#include "base/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/page_bytes.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf {
namespace {

// Its size stays, and so do these. Only a memfd can have them: a file on tmpfs is sealed against
// seals from its beginning.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// What was mapped before goes on being written by who has mapped it, and nobody else writes, or
// makes holes, whatever descriptor he has (Linux 5.1).
constexpr int kOwnSeals = kSeals | F_SEAL_FUTURE_WRITE;

bool IsSize(std::uint64_t size_bytes) {
  return kMinSharedBytes <= size_bytes && size_bytes <= kMaxSharedBytes &&
         size_bytes % kPageBytes == 0;
}

absl::Status CannotMake(int error) {
  const std::string text = Cat("cannot make memory to share: ", std::strerror(error));
  return error == ENOSYS || error == EPERM || error == EACCES || error == EINVAL
             ? absl::UnimplementedError(ToAbsl(text))
             : absl::ResourceExhaustedError(ToAbsl(text));
}

absl::Status NotShared(std::string_view why) {
  return absl::InvalidArgumentError(ToAbsl(Cat("this is no memory to share: ", why)));
}

}  // namespace

SharedMemory::SharedMemory(UniqueFd fd, std::span<std::uint8_t> bytes)
    : fd_(std::move(fd)), bytes_(bytes) {}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

absl::StatusOr<SharedMemory> SharedMemory::Make(std::size_t size_bytes) {
  if (!IsSize(size_bytes)) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("memory to share has ", kMinSharedBytes, " to ", kMaxSharedBytes,
                   " bytes, in whole pages; not ", size_bytes)));
  }
  UniqueFd fd(memfd_create("kerf blocks", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    return CannotMake(errno);
  }
  void* const bytes = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (bytes == MAP_FAILED) return CannotMake(errno);
  SharedMemory memory(std::move(fd), {static_cast<std::uint8_t*>(bytes), size_bytes});
  if (fcntl(memory.fd(), F_ADD_SEALS, kOwnSeals) != 0) return CannotMake(errno);
  return memory;
}

absl::StatusOr<ForeignMemory> ForeignMemory::Take(UniqueFd fd) {
  // First, and of nothing else is anything asked: what belongs to a program (FUSE) may never
  // answer.
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) return NotShared("it cannot be sealed");
  if ((seals & kSeals) != kSeals) return NotShared("its size is not sealed");
  struct statfs system{};
  // Huge pages are not: each read may wait for one.
  if (fstatfs(fd.get(), &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return NotShared("it is not of pages of the usual size");
  }
  struct stat info{};
  if (fstat(fd.get(), &info) != 0 || !IsSize(static_cast<std::uint64_t>(info.st_size))) {
    return NotShared(
        Cat("it has not ", kMinSharedBytes, " to ", kMaxSharedBytes, " bytes, in whole pages"));
  }
  // One that was opened to be written only cannot be read.
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || (flags & O_PATH) != 0) {
    return NotShared("it cannot be read");
  }
  return ForeignMemory(std::move(fd), static_cast<std::size_t>(info.st_size));
}

absl::Status ForeignMemory::Read(std::uint64_t offset_bytes, std::span<std::uint8_t> out) const {
  if (!Holds(offset_bytes, out.size())) {
    return absl::OutOfRangeError(ToAbsl(Cat(out.size(), " bytes from ", offset_bytes,
                                            " on are not within shared memory of ", size_bytes_)));
  }
  while (!out.empty()) {
    const ssize_t count =
        pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset_bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return absl::DataLossError(
          ToAbsl(Cat("cannot read shared memory at ", offset_bytes, ": ",
                     count < 0 ? std::strerror(errno) : "it has become shorter")));
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset_bytes += static_cast<std::uint64_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace kerf
