// What can be set of the port for those who watch kerfd.
#pragma once

#include <string>

#include "base/cli/option_set.h"

namespace kerf {

struct MetricsSettings {
  // HOST:PORT; empty: nothing is said over HTTP.
  std::string listen;
  // Who reads /metrics shows a certificate of one of these; empty: anybody does.
  std::string client_ca;
  // Empty: none.
  std::string ready_file;
};

void AddMetricsSettings(OptionSet& options, MetricsSettings& settings);

// What is wrong with settings that are good one by one; empty: nothing.
std::string FindMetricsContradiction(const MetricsSettings& settings, bool has_tls);

}  // namespace kerf
