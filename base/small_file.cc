#include "base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

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
  struct stat facts{};
  if (fstat(file.get(), &facts) != 0) return failed(errno);
  // Of a folder reading says so.
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) {
    return absl::InvalidArgumentError(ToAbsl(
        Cat("cannot read ", path, ": it is a pipe or a device, and has to be a regular file")));
  }
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

bool IsOpenToAll(const std::string& path) {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::canonical(path, error);
  if (error) return false;
  struct stat facts{};
  if (stat(place.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  if ((facts.st_mode & (S_IROTH | S_IWOTH)) == 0) return false;
  std::filesystem::path folder = place.parent_path();
  while (true) {
    if (stat(folder.c_str(), &facts) != 0 || (facts.st_mode & S_IXOTH) == 0) return false;
    if (folder == folder.parent_path()) return true;
    folder = folder.parent_path();
  }
}

}  // namespace kerf
