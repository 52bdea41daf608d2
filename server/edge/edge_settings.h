// What can be set of streams and calls of those who cut.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/cli/option_set.h"
#include "base/limits.h"
#include "base/units.h"
#include "server/session/session_limits.h"

namespace kerf {

struct EdgeSettings {
  // Of one stream.
  std::uint64_t stream_memory_bytes = 16 * kMiB;
  SessionLimits session;
  std::chrono::milliseconds open_timeout = limits::kOpenTimeout;
  std::chrono::milliseconds idle_timeout = limits::kIdleTimeout;
  std::chrono::milliseconds index_timeout = limits::kIndexTimeout;
  // Only repositories that were created may be used; else one is met when it is named.
  bool only_created_repositories = false;
  // Of the Index service, at once.
  std::uint32_t max_index_calls = 64;
};

void AddEdgeSettings(OptionSet& options, EdgeSettings& settings);

}  // namespace kerf
