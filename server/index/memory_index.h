// The index in memory: for tests and for servers whose index may go with the process.
#pragma once

#include <cstdint>
#include <memory>

#include "server/index/index.h"

namespace kerf {

struct MemoryIndexOptions {
  // Entries of all repositories together; a repository counts as one more. 0 is no limit. About
  // 200 bytes of memory each.
  std::uint64_t max_entry_count = 0;
};

// Nothing outlives it: durable means here as long as the process. Commit and AdvanceEpoch answer
// ResourceExhausted where max_entry_count would be passed; entries before that one are written.
// Scan and Stats are exact.
std::unique_ptr<Index> CreateMemoryIndex(const MemoryIndexOptions& options);
std::unique_ptr<Index> CreateMemoryIndex();

}  // namespace kerf
