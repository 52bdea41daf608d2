#include "base/open_files.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "base/unique_fd.h"

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
  std::vector<UniqueFd> files;
  for (int opened = 0; opened < count; ++opened) {
    files.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!files.back().valid()) return false;
  }
  return true;
}

}  // namespace kerf
