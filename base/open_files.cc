#include "base/open_files.h"

#include <sys/resource.h>

#include <algorithm>

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

}  // namespace kerf
