// What can be set of how kerfd begins and ends.
#pragma once

#include <chrono>
#include <string>

#include "base/cli/option_set.h"
#include "base/limits.h"

namespace kerf {

struct LifecycleSettings {
  // Empty: none.
  std::string ready_file;
  // kerfd serves while somebody holds a lock on it. Empty: until it is told to stop.
  std::string while_locked;
  std::chrono::milliseconds drain = limits::kDrain;
};

void AddLifecycleSettings(OptionSet& options, LifecycleSettings& settings);

}  // namespace kerf
