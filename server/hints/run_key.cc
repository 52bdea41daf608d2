#include "server/hints/run_key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf {
namespace {

// Its group may read it: a Secret of Kubernetes is root's, and a process that is not root has it by
// its group.
constexpr mode_t kOthersMode = (S_IRWXG & ~S_IRGRP) | S_IRWXO;

absl::Status ErrnoStatus(const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, ToAbsl(Cat("the key of sealed runs in ", path)));
}

absl::Status WrongLength(const std::string& path) {
  return absl::InvalidArgumentError(
      ToAbsl(Cat("the key of sealed runs in ", path, " must be ", sizeof(RunKey),
                 " bytes long: head -c ", sizeof(RunKey), " /dev/urandom > ", path)));
}

}  // namespace

RunKey MakeRandomRunKey() {
  RunKey key;
  KERF_CHECK(RAND_bytes(key.bytes.data(), static_cast<int>(key.bytes.size())) == 1);
  return key;
}

absl::StatusOr<RunKey> ReadRunKey(const std::string& path) {
  // Not blocking: it may be a pipe.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return ErrnoStatus(path);
  struct stat about{};
  if (fstat(file.get(), &about) != 0) return ErrnoStatus(path);
  if (!S_ISREG(about.st_mode)) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("the key of sealed runs in ", path, " is no regular file")));
  }
  if ((about.st_mode & kOthersMode) != 0) {
    return absl::PermissionDeniedError(
        ToAbsl(Cat("others than its owner and group may use the key of sealed runs in ", path,
                   ": chmod 0640 or less, and change the key if somebody may have read it")));
  }
  // One byte more than it has.
  std::array<std::uint8_t, sizeof(RunKey) + 1> bytes;
  std::size_t count = 0;
  while (count < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + count, bytes.size() - count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(path);
    if (got == 0) break;
    count += static_cast<std::size_t>(got);
  }
  if (count != sizeof(RunKey)) return WrongLength(path);
  RunKey key;
  std::copy_n(bytes.begin(), key.bytes.size(), key.bytes.begin());
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}

}  // namespace kerf
