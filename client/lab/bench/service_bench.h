// `kerf bench service`: kerfd beside a raw stream of the same frames and beside cutting and hashing
// alone, in one run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lab/bench/figures.h"
#include "client/lab/bench/memory_pass.h"
#include "client/lab/bench/process_costs.h"
#include "client/lab/bench/service_options.h"
#include "client/lab/bench/stream_pass.h"

namespace kerf::bench {

// All rounds with one number of streams.
struct StreamGroup {
  std::uint32_t stream_count = 0;
  // Of the kernels' row.
  std::size_t thread_count = 0;
  RoundCosts costs;
  // Of the last round.
  StreamPass last_upload;
};

struct ServiceResult {
  Machine machine;
  std::vector<StreamGroup> groups;
  // Nothing where it was not asked for, or where kerfd was not started here.
  std::optional<MemoryFigures> memory;
  // Chunks whose offset, digest and check were compared with those cut and hashed here.
  std::uint64_t checked_chunk_count = 0;
};

// Runs it all; `say` is told what is being done. DataLoss: a server answered wrongly. Cancelled:
// `cancelled` became true. What was started is ended and removed in every case.
absl::StatusOr<ServiceResult> RunServiceBench(const ServiceOptions& options,
                                              const std::atomic<bool>& cancelled,
                                              const std::function<void(std::string_view)>& say);

}  // namespace kerf::bench
