// Which piece of a batch a position is of.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// How many pieces begin at `position` or before it, of which it is known that at least `low` do,
// and at most `high`.
KERF_DEVICE_CODE std::uint32_t PiecesUpTo(const Piece* pieces, std::uint32_t position,
                                          std::uint32_t low, std::uint32_t high) {
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (pieces[middle].offset <= position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace kerf::cuda
