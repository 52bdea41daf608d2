// What can be set of what every kerfd does that serves clients: a front and those who cut.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/cli/option_set.h"
#include "base/limits.h"
#include "base/units.h"

namespace kerf {

struct ServingSettings {
  // As ParseListenAddress takes them.
  std::vector<std::string> listen = {"127.0.0.1:7461"};
  // Uploads at once.
  std::uint32_t max_streams = 1024;
  // Of all of them.
  std::uint64_t memory_bytes = kGiB;
  // Over TCP, at once.
  std::uint32_t max_connections = 4096;
  std::chrono::milliseconds idle_evict = limits::kIdleEvict;
  std::chrono::milliseconds write_stall = limits::kWriteStall;
  std::chrono::milliseconds stall_warn = limits::kStallWarn;
  // Between two looks of kerfd at its own addresses.
  std::chrono::milliseconds self_check{5'000};
};

void AddServingSettings(OptionSet& options, ServingSettings& settings);

}  // namespace kerf
