// What can be set of an index that this process keeps itself.
#pragma once

#include <string>

#include "base/cli/option_set.h"

namespace kerf {

struct IndexSettings {
  // Empty, and no Redis: an index in memory. Not both.
  std::string data_dir;
  bool sync_commits = false;
};

void AddIndexSettings(OptionSet& options, IndexSettings& settings);

}  // namespace kerf
