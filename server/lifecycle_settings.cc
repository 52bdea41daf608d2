#include "server/lifecycle_settings.h"

namespace kerf {

void AddLifecycleSettings(OptionSet& options, LifecycleSettings& settings) {
  options.AddText(
      {"ready-file", "Written once kerfd serves: the bound addresses, one a line", "FILE"},
      settings.ready_file);
  options.AddText({"while-locked",
                   "Serve for as long as some process holds a lock (flock) on this file, and then "
                   "end as by SIGTERM. kerf starts a kerfd of its own so",
                   "FILE"},
                  settings.while_locked);
  options.AddTime({"drain-ms", "How long a stopping kerfd still takes commits"}, settings.drain);
}

}  // namespace kerf
