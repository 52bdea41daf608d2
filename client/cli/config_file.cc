#include "client/cli/config_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/strings.h"
#include "base/toml_config.h"
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
    return Cat(path, ": ", std::strerror(errno));
  }
  return S_ISDIR(info.st_mode) ? Cat(path, " is a folder: name the file in it") : "";
}

void AddConfigFile(CLI::App& app) {
  app.config_formatter(MakeTomlConfig(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
  const char* variable = std::getenv(kConfigVariable);
  const bool given = variable != nullptr && *variable != '\0';
  const std::string path = given ? variable : DefaultConfigPath();
  // CLI11 goes on without a file that it cannot read unless the file is required.
  struct stat info{};
  const bool required =
      given ||
      (!path.empty() && (stat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR)));
  app.set_config("--config", path,
                 "Settings as TOML: flags by their long names, those of one verb in its table",
                 required)
      ->envname(kConfigVariable)
      // CLI11 itself says if it cannot read the default, once it has seen that no help is wanted.
      ->check(
          [path](const std::string& value) {
            return !value.empty() && value == path ? "" : RefuseUnreadableConfig(value);
          },
          "")
      ->type_name("FILE");
}

}  // namespace kerf::agent
