#include "client/agent/cli/config_file.h"

#include <cstdlib>

#include "base/strings.h"
#include "base/toml_config.h"

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

void AddConfigFile(CLI::App& app) {
  app.config_formatter(MakeTomlConfig(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
  const char* path = std::getenv(kConfigVariable);
  const bool given = path != nullptr && *path != '\0';
  // A file that is named must be there.
  app.set_config("--config", given ? path : DefaultConfigPath(),
                 "Settings as TOML: flags by their long names, those of one verb in its table",
                 given)
      ->envname(kConfigVariable)
      ->type_name("FILE");
}

}  // namespace kerf::agent
