#include "base/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace kerf {

std::uint64_t RaiseOpenFileLimit(std::uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t possible = std::min<rlim_t>(limit.rlim_max, wanted);
  if (limit.rlim_cur < possible) {
    const rlimit raised{possible, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur;
}

bool HasOpenFilesLeft(int count) {
  rlimit limit{};
  std::error_code error;
  // Opened, so that a machine without any is seen; counted, so that nobody misses them meanwhile.
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error || getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const auto open_count = static_cast<rlim_t>(std::distance(begin(files), end(files)));
  return open_count + static_cast<rlim_t>(count) <= limit.rlim_cur;
}

}  // namespace kerf
