// Batches with which each kernel does all that it can do, so that a change of it shows.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"

namespace kerf::cuda::ptx {

struct Workload {
  std::shared_ptr<const BatchPlan> plan;
  SlotLimits limits;
  // As many as limits.batch_bytes.
  std::vector<std::uint8_t> bytes;
  std::vector<SlotPiece> pieces;
};

// Small chunks, many of them, and what has few marks or none: some hundred KiB each.
std::vector<Workload> MakeDenseWorkloads(std::uint64_t seed);

// These, and behind them larger ones of the named profiles, and of any plan: in the order in which
// they are worth to be tried.
std::vector<Workload> MakeWorkloads(std::uint64_t seed);

}  // namespace kerf::cuda::ptx
