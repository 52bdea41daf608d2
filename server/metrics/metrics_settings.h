// What can be set of the port for those who watch kerfd.
#pragma once

#include <string>

#include "base/cli/option_set.h"

namespace kerf {

struct MetricsSettings {
  // HOST:PORT; empty: nothing is said over HTTP.
  std::string listen;
  // Empty: none.
  std::string ready_file;
};

void AddMetricsSettings(OptionSet& options, MetricsSettings& settings);

}  // namespace kerf
