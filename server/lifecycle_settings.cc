#include "server/lifecycle_settings.h"

namespace kerf {

void AddLifecycleSettings(OptionSet& options, LifecycleSettings& settings) {
  options.AddText(
      {"ready-file", "Written once kerfd serves: the bound addresses, one a line", "FILE"},
      settings.ready_file);
  options.AddTime({"drain-ms", "How long a stopping kerfd still takes commits"}, settings.drain);
}

}  // namespace kerf
