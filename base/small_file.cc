#include "base/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace kerf {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, std::size_t max_bytes) {
  const auto failed = [&](int error) {
    return absl::ErrnoToStatus(error, ToAbsl(Cat("cannot read ", path)));
  };
  // A pipe that nobody writes to is no reason to wait for ever.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return failed(errno);
  std::string text;
  std::array<char, 16 << 10> part;
  while (text.size() <= max_bytes) {
    const ssize_t count = read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed(errno);
    if (count == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  return absl::InvalidArgumentError(
      ToAbsl(Cat(path, ": more than ", FormatByteSize(max_bytes), ": it is another file")));
}

}  // namespace kerf
