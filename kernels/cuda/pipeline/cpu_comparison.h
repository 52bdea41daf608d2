// Holds what a device made of pieces of streams against the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/piece_cuts.h"

namespace kerf::cuda {

struct ComparedPiece {
  std::shared_ptr<const BatchPlan> plan;
  std::span<const std::uint8_t> bytes;
  bool is_end = false;
  PieceCuts cuts;
};

// Where and how the chunks differ from the CPU's; empty if they do not. A device may leave the end
// of a piece that does not end its stream undecided, less than the profile's max_bytes of it.
// Thread-safe.
std::string DifferenceOf(const ComparedPiece& piece);

// The first difference of one of them, with the piece's number; empty if there is none. By as many
// threads as the machine has cores.
std::string DifferenceOfAny(std::span<const ComparedPiece> pieces);

}  // namespace kerf::cuda
