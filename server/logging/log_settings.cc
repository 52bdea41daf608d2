#include "server/logging/log_settings.h"

namespace kerf {

void AddLogSettings(OptionSet& options, LogSettings& settings) {
  options.AddChoice<LogLevel>({"log-level", "debug, info, warning or error"}, settings.level,
                              {{"debug", LogLevel::kDebug},
                               {"info", LogLevel::kInfo},
                               {"warning", LogLevel::kWarning},
                               {"error", LogLevel::kError}});
  options.AddChoice<LogFormat>(
      {"log-format", "Of the log on standard error: text, or json, which is one object a line"},
      settings.format, {{"text", LogFormat::kText}, {"json", LogFormat::kJson}});
}

}  // namespace kerf
