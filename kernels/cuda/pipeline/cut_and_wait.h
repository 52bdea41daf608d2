// One piece, for those who have nothing else to do: tests and checks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/pipeline/piece_cuts.h"

namespace kerf::cuda {

// Cuts the piece on the GPU, or here where it is handed back or left out, or the GPU is lost. Waits
// for room. Thread-safe.
PieceCuts CutAndWait(GpuCutter& gpu, const std::shared_ptr<const BatchPlan>& plan,
                     std::span<const std::uint8_t> piece, bool is_end);

}  // namespace kerf::cuda
