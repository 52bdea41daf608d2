#include "server/index/sequence_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "server/index/codec.h"

namespace kerf {
namespace {

// RocksDB leaves files alone whose names are not of its own kind.
constexpr std::string_view kName = "/KERF_SEQUENCE";
// Of a number as the index writes it, and of what follows if it is none.
constexpr std::size_t kMaxBytes = 32;

absl::Status FileError(const std::string& path, int error) {
  return absl::UnavailableError(ToAbsl(Cat(path, ": ", std::strerror(error))));
}

}  // namespace

absl::StatusOr<std::uint64_t> ReadSequenceMark(const std::string& folder) {
  const std::string path = Cat(folder, kName);
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return 0;
    return FileError(path, errno);
  }
  std::array<char, kMaxBytes> bytes{};
  const ssize_t size = read(file.get(), bytes.data(), bytes.size());
  if (size < 0) return FileError(path, errno);
  const auto number = index_codec::ParseNumber({bytes.data(), static_cast<std::size_t>(size)});
  if (number.ok()) return number;
  return Annotate(number.status(), path);
}

absl::Status WriteSequenceMark(const std::string& folder, std::uint64_t sequence) {
  const std::string path = Cat(folder, kName);
  const std::string temporary = path + ".tmp";
  const std::string bytes = index_codec::EncodeNumber(sequence);
  UniqueFd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const bool is_written =
      file.valid() &&
      write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
      fsync(file.get()) == 0;
  // Not synced: after a power cut the older mark is as true.
  if (is_written && rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(temporary.c_str());
  return FileError(path, error);
}

}  // namespace kerf
