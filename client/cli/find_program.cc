#include "client/cli/find_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdlib>

#include "base/strings.h"

namespace kerf::agent {
namespace {

bool IsProgram(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string ProgramFolder() {
  char path[PATH_MAX];
  const ssize_t count = readlink("/proc/self/exe", path, sizeof path);
  const std::string self(path, count < 0 ? 0 : static_cast<std::size_t>(count));
  return self.substr(0, self.rfind('/') + 1);
}

std::string FindProgram(const std::string& folder, std::string_view path, std::string_view name) {
  if (const std::string beside = Cat(folder, name); !folder.empty() && IsProgram(beside)) {
    return beside;
  }
  while (!path.empty()) {
    const std::size_t colon = path.find(':');
    const std::string_view in_path = path.substr(0, colon);
    // "" and "." are the current folder, and others lead away from it.
    if (const std::string found = Cat(in_path, "/", name);
        in_path.starts_with('/') && IsProgram(found)) {
      return found;
    }
    path = colon == std::string_view::npos ? "" : path.substr(colon + 1);
  }
  return "";
}

std::string FindProgram(std::string_view name) {
  const char* const path = std::getenv("PATH");
  return FindProgram(ProgramFolder(), path == nullptr ? "" : path, name);
}

}  // namespace kerf::agent
