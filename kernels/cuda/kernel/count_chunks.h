// How many chunks the selection has found: in a place of its own, for the fingerprints and the
// host.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/portable.h"
#include "kernels/cuda/kernel/selection_args.h"

namespace kerf::cuda {

struct CountChunks {
  struct Args {
    const BatchHeader* header;
    PrefixSums segment_chunks;
    std::uint32_t* chunk_count;
  };
  struct Shared {};
  struct Local {};
  static constexpr unsigned kBlockThreads = 32;
  static constexpr int kPhaseCount = 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args&) { return 1; }
  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared&, Local&, unsigned, unsigned thread) {
    if (thread != 0) return;
    const std::uint32_t count = args.header->segment_count;
    *args.chunk_count = args.segment_chunks.Before(count, count);
  }
};

}  // namespace kerf::cuda
