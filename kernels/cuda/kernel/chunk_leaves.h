// Numbers the BLAKE3 leaves of all chunks: two kernels, one after the other, make of the chunks'
// sizes the number of leaves in front of each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/blake3_tree.h"
#include "kernels/cuda/kernel/block_scan.h"
#include "kernels/cuda/kernel/portable.h"

namespace kerf::cuda {

// Chunks of one tile. A tile of the second kernel sums up what the first has left of all tiles in
// front of it, which no order of tiles is needed for.
inline constexpr unsigned kLeafTileChunks = 2048;

// How many sums LeafSums writes.
constexpr std::size_t LeafSumCount(std::size_t chunk_count) {
  return chunk_count / kLeafTileChunks;
}

// The leaves of each whole tile of chunks.
struct LeafSums {
  struct Args {
    const Chunk* chunks;
    const std::uint32_t* chunk_count;
    std::uint32_t* sums;
  };
  struct Shared {
    std::uint32_t sum;
  };
  struct Local {};
  static constexpr unsigned kBlockThreads = 256;
  static constexpr int kPhaseCount = 3;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return *args.chunk_count / kLeafTileChunks;
  }

  KERF_DEVICE_CODE static void Begin(const Args& /*args*/, Shared& /*shared*/,
                                     unsigned /*thread*/) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& /*local*/,
                                     unsigned tile, unsigned thread) {
    if constexpr (kPhase == 0) {
      if (thread == 0) shared.sum = 0;
    } else if constexpr (kPhase == 1) {
      const Chunk* chunks = args.chunks + std::size_t{tile} * kLeafTileChunks;
      std::uint32_t sum = 0;
      for (unsigned index = thread; index < kLeafTileChunks; index += kBlockThreads) {
        sum += LeafCount(chunks[index].size_bytes);
      }
      AtomicAdd(&shared.sum, sum);
    } else {
      if (thread == 0) args.sums[tile] = shared.sum;
    }
  }
};

// first_leaves[i]: the leaves of the chunks in front of chunk i; at the count of chunks, those of
// all.
struct LeafOffsets {
  struct Args {
    const Chunk* chunks;
    const std::uint32_t* chunk_count;
    const std::uint32_t* sums;
    std::uint32_t* first_leaves;
  };
  static constexpr unsigned kBlockThreads = 256;
  static constexpr int kPhaseCount = 4;
  struct Shared {
    std::uint32_t before_tile;
    BlockScan<kBlockThreads> scan;
  };
  static constexpr unsigned kThreadChunks = kLeafTileChunks / kBlockThreads;
  struct Local {
    std::uint32_t leaf_counts[kThreadChunks];
  };

  // The last tile, if only that, has the place behind the last chunk.
  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return *args.chunk_count / kLeafTileChunks + 1;
  }

  KERF_DEVICE_CODE static void Begin(const Args& /*args*/, Shared& /*shared*/,
                                     unsigned /*thread*/) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t first = tile * kLeafTileChunks + thread * kThreadChunks;
    if constexpr (kPhase == 0) {
      if (thread == 0) shared.before_tile = 0;
      const std::uint32_t chunk_count = *args.chunk_count;
      std::uint32_t sum = 0;
      KERF_UNROLL
      for (unsigned index = 0; index < kThreadChunks; ++index) {
        const std::uint32_t chunk = first + index;
        local.leaf_counts[index] =
            chunk < chunk_count ? LeafCount(args.chunks[chunk].size_bytes) : 0;
        sum += local.leaf_counts[index];
      }
      shared.scan.Put(thread, sum);
    } else if constexpr (kPhase == 1) {
      std::uint32_t sum = 0;
      for (unsigned index = thread; index < tile; index += kBlockThreads) sum += args.sums[index];
      if (sum > 0) AtomicAdd(&shared.before_tile, sum);
    } else if constexpr (kPhase == 2) {
      shared.scan.SumGroups(thread);
    } else {
      const std::uint32_t chunk_count = *args.chunk_count;
      std::uint32_t first_leaf = shared.before_tile + shared.scan.Before(thread);
      KERF_UNROLL
      for (unsigned index = 0; index < kThreadChunks; ++index) {
        if (first + index <= chunk_count) args.first_leaves[first + index] = first_leaf;
        first_leaf += local.leaf_counts[index];
      }
    }
  }
};

}  // namespace kerf::cuda
