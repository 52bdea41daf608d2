#include "client/cli/program_folder.h"

#include <unistd.h>

#include <climits>
#include <cstddef>

namespace kerf::agent {

std::string ProgramFolder() {
  char path[PATH_MAX];
  const ssize_t count = readlink("/proc/self/exe", path, sizeof path);
  const std::string self(path, count < 0 ? 0 : static_cast<std::size_t>(count));
  return self.substr(0, self.rfind('/') + 1);
}

}  // namespace kerf::agent
