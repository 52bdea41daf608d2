// What can be set of a front alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/cli/option_set.h"
#include "server/routing/worker_address.h"

namespace kerf {

struct FrontSettings {
  std::vector<routing::WorkerAddress> workers;
  // Calls at once that are no uploads.
  std::uint32_t max_calls = 256;
  // Uploads at once. 0: all if there is one worker, else three quarters of them.
  std::uint32_t max_worker_streams = 0;
  std::chrono::milliseconds worker_check{1'000};
  std::chrono::milliseconds worker_refresh{5'000};
  // CAs of the workers' certificates; empty: workers are spoken to in the clear.
  std::string worker_tls_ca;
  // Of which these have to be; empty: of the host in --workers.
  std::string worker_tls_name;
};

void AddFrontSettings(OptionSet& options, FrontSettings& settings);

}  // namespace kerf
