// A kernel for the tests of the emulator and of the launch.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// sums[tile] = the sum of the tile's 64 numbers and of `bias`, by halving in shared memory.
// kFaulty leaves out what the barrier between two phases is for.
template <bool kFaulty>
struct TileSum {
  struct Args {
    const std::uint32_t* numbers;
    std::uint32_t* sums;
    std::uint32_t* tile_count;
    std::uint32_t bias;
  };
  struct Shared {
    std::uint32_t bias;
    std::uint32_t partial[64];
  };
  struct Local {
    std::uint32_t number;
  };
  static constexpr unsigned kBlockThreads = 64;
  static constexpr int kPhaseCount = kFaulty ? 1 : 8;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) { return *args.tile_count; }

  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread) {
    if (thread == 0) shared.bias = args.bias;
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    if constexpr (kPhase == 0) {
      local.number = args.numbers[tile * 64 + thread];
      shared.partial[thread] = local.number;
      if constexpr (kFaulty) {
        // Takes its neighbour to have written.
        args.sums[tile * 64 + thread] = shared.partial[(thread + 1) % 64];
      }
    } else if constexpr (kPhase < 7) {
      constexpr unsigned kStride = 64u >> kPhase;
      if (thread < kStride) shared.partial[thread] += shared.partial[thread + kStride];
    } else {
      if (thread == 0) args.sums[tile] = shared.partial[0] + shared.bias;
      // What a thread holds lives from phase to phase.
      if (local.number != args.numbers[tile * 64 + thread]) args.sums[tile] = 0;
    }
  }
};

}  // namespace kerf::cuda
