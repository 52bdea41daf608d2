// What can be set of who may do what.
#pragma once

#include <string>

#include "base/cli/option_set.h"

namespace kerf {

struct AccessSettings {
  // Empty: everybody may do everything.
  std::string file;
};

void AddAccessSettings(OptionSet& options, AccessSettings& settings);

}  // namespace kerf
