// What can be set of the log.
#pragma once

#include "base/cli/option_set.h"
#include "server/logging/logging.h"

namespace kerf {

struct LogSettings {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

void AddLogSettings(OptionSet& options, LogSettings& settings);

}  // namespace kerf
