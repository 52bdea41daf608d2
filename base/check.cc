#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace kerf {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: kerf is broken: check failed: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace kerf
