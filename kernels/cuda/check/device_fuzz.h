// Seeded batches and streams through a device, against the CPU.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/device/open_device.h"
#include "kernels/cuda/pipeline/batch_slot.h"

namespace kerf::cuda {

struct FuzzOptions {
  // Round r is made of seed + r alone: what is cut, by which profiles, in which pieces.
  std::uint64_t seed = 0;
  // It ends behind so many rounds, or so much time; a round that has begun is finished.
  std::uint64_t max_round_count = ~std::uint64_t{0};
  std::chrono::milliseconds max_time{180'000};
  SlotLimits slot{.batch_bytes = 16 << 20, .piece_count = 4096};
  // A batch that has not come back by then never will.
  std::chrono::milliseconds batch_timeout{10'000};
};

struct FuzzCounters {
  std::uint64_t round_count = 0;
  std::uint64_t piece_count = 0;
  std::uint64_t byte_count = 0;
  // Of the pieces, those that the device has left to the CPU: they show nothing.
  std::uint64_t cpu_piece_count = 0;
};

// Rounds of two kinds: batches that are laid out by hand (BatchSlot), two on their way at once, and
// streams of several threads (GpuCutter). `counters` is right whatever becomes of it. DataLoss: the
// device differs from the CPU, where, and with the seed of the round; else the device is lost or
// cannot be had.
absl::Status RunDeviceFuzz(const OpenDevice& open, const FuzzOptions& options,
                           FuzzCounters& counters);

}  // namespace kerf::cuda
