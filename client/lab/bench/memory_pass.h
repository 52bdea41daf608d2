// How much memory a kerfd holds for its streams.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "client/lab/bench/service_options.h"

namespace kerf::bench {

struct MemoryFigures {
  // Resident, of a fresh kerfd without streams.
  std::uint64_t empty_bytes = 0;
  // Resident, with that many streams that are open, each on a connection of its own, and silent.
  std::uint32_t idle_streams = 0;
  std::uint64_t idle_bytes = 0;
  // The highest while that many streams send as fast as they can, into repositories of their own.
  std::uint32_t busy_streams = 0;
  std::uint64_t busy_peak_bytes = 0;

  // What a stream adds.
  std::uint64_t idle_bytes_per_stream() const;
  std::uint64_t busy_bytes_per_stream() const;
};

// Starts a kerfd of its own for each of the two. A number of streams of 0 leaves that part out.
absl::StatusOr<MemoryFigures> MeasureMemory(const ServiceOptions& options,
                                            const std::atomic<bool>& cancelled);

}  // namespace kerf::bench
