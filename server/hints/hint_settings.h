// What can be set of hints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/cli/option_set.h"
#include "base/units.h"

namespace kerf {

struct HintSettings {
  // 0: files are cut without hints; nothing: as MemoryBytesOf decides.
  std::optional<std::uint64_t> memory_bytes;
  // Of a size list, for profiles with a criterion.
  std::uint32_t max_sizes = 2;
  // On disk, where the index is.
  std::uint64_t disk_bytes = kGiB;
  // Empty: that of the index on disk, or one for this process alone.
  std::string key_file;
};

void AddHintSettings(OptionSet& options, HintSettings& settings);

// Where the index is at hand and the profile's rule is fast, hints save nothing: unless memory is
// set, only an index that is asked over the network has some.
std::uint64_t MemoryBytesOf(const HintSettings& settings, bool is_index_remote);

}  // namespace kerf
