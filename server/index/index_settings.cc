#include "server/index/index_settings.h"

namespace kerf {

void AddIndexSettings(OptionSet& options, IndexSettings& settings) {
  options.AddText(
      {"data-dir",
       "Folder of the index (DIR/index). Without it and without --redis the index is in memory "
       "and goes with the process",
       "DIR"},
      settings.data_dir);
  options.AddBool(
      {"sync-commits",
       "Wait for the disk on each commit (true or false). Without it a power cut may cost an "
       "agent a second upload, never its data"},
      settings.sync_commits);
}

}  // namespace kerf
