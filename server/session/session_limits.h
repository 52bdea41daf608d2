// What one stream may hold that is not committed: told to its client.
#pragma once

#include <cstdint>

#include "base/limits.h"

namespace kerf {

struct SessionLimits {
  std::uint32_t max_message_bytes = limits::kMaxMessageBytes;
  std::uint32_t max_uncommitted_chunks = 65'536;
  std::uint32_t max_uncommitted_files = 16'384;
  std::uint32_t max_commit_entries = limits::kMaxCommitEntries;
  std::uint32_t max_named_bytes = limits::kMaxNamedBytes;
};

}  // namespace kerf
