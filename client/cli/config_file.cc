#include "client/cli/config_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/strings.h"
#include "client/cli/context.h"

namespace kerf::agent {
namespace {

constexpr char kConfigVariable[] = "KERF_CONFIG";

}  // namespace

std::string DefaultConfigPath() {
  if (const char* home = std::getenv("XDG_CONFIG_HOME"); home != nullptr && *home == '/') {
    return Cat(home, "/kerf/config.toml");
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return Cat(home, "/.config/kerf/config.toml");
  }
  return "";
}

std::string RefuseUnreadableConfig(const std::string& path) {
  if (path.empty()) return RefuseEmpty(path);
  struct stat info{};
  // Not opened: of a pipe that would be seen.
  if (stat(path.c_str(), &info) != 0 || access(path.c_str(), R_OK) != 0) {
    const int error = errno;
    const std::string text = Cat(path, ": ", std::strerror(error));
    // Passed over, its settings would silently not count.
    if (error != EACCES || path != DefaultConfigPath()) return text;
    return Cat(text, "; where that is another user's, as when sudo keeps HOME, set HOME to one's ",
               "own (sudo -H), or name a file with --config or ", kConfigVariable,
               " (/dev/null: no settings)");
  }
  return S_ISDIR(info.st_mode) ? Cat(path, " is a folder: name the file in it") : "";
}

void AddConfigFile(CommandLine& line, bool skips_unknown) {
  const char* variable = std::getenv(kConfigVariable);
  const bool given = variable != nullptr && *variable != '\0';
  ConfigFile file;
  file.path = given ? variable : DefaultConfigPath();
  file.variable = kConfigVariable;
  // CLI11 goes on without a file that it cannot read unless the file is required.
  struct stat info{};
  file.required = given || (!file.path.empty() && (stat(file.path.c_str(), &info) == 0 ||
                                                   (errno != ENOENT && errno != ENOTDIR)));
  file.description = "Settings as TOML: flags by their long names, those of one verb in its table";
  // CLI11 itself says if it cannot read the default, once it has seen that no help is wanted.
  file.check = [path = file.path](const std::string& value) {
    return !value.empty() && value == path ? "" : RefuseUnreadableConfig(value);
  };
  file.skips_unknown = skips_unknown;
  line.AddConfigFile(file);
}

}  // namespace kerf::agent
