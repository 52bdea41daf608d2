// The last steps of a piece whose candidates a GPU has found, on the CPU: selection, for which the
// rule is the one that the kernels ask (kernels/cuda/kernel/cut.h), and fingerprints.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/piece_cuts.h"

namespace kerf::cuda {

// What CutPieceOnCpu returns. `candidates` are all of the piece, by their place in it, in ascending
// order and in the piece (selection_args.h: Candidate); wrong ones give other cuts, nothing worse.
// Thread-safe.
PieceCuts SelectOnHost(const BatchPlan& plan, std::span<const std::uint8_t> piece, bool is_end,
                       std::span<const std::uint32_t> candidates);

}  // namespace kerf::cuda
