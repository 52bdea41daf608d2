// Puts a batch's chunks in an order for SHA-256: the lanes of a warp wait for the longest of them,
// so that neighbours are to have about as many blocks, and the longest come first, since the last
// ones of a launch should be short. Two kernels, one after the other, count and place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/block_scan.h"
#include "kernels/cuda/kernel/sha256_padding.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// Chunks of one tile.
inline constexpr unsigned kOrderTileChunks = 2048;
// Classes of numbers of blocks, the largest first.
inline constexpr unsigned kOrderClasses = 768;

// How many counts OrderCounts writes.
constexpr std::size_t OrderCountCount(std::size_t chunk_count) {
  return (chunk_count + kOrderTileChunks - 1) / kOrderTileChunks * kOrderClasses;
}

// A class for each number below 64, 32 for every doubling above: within a class the largest number
// is at most 1/32 more than the smallest.
KERF_DEVICE_CODE unsigned OrderClass(std::uint32_t block_count) {
  unsigned ascending = block_count;
  if (block_count >= 64) {
    const unsigned shift = HighestBit(block_count) - 5;
    ascending = 32 * shift + (block_count >> shift);
  }
  return kOrderClasses - 1 - ascending;
}

static_assert(kMaxBatchBytes / 64 + 1 < std::size_t{33} << 20,
              "the largest number of blocks is in class 32 * 20 + 32 from the end");

// counts[kOrderClasses * tile + class]: the chunks of the class within the tile.
struct OrderCounts {
  struct Args {
    const Chunk* chunks;
    const std::uint32_t* chunk_count;
    std::uint32_t* counts;
  };
  struct Shared {
    std::uint32_t counts[kOrderClasses];
  };
  struct Local {};
  static constexpr unsigned kBlockThreads = 256;
  static constexpr int kPhaseCount = 3;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return (*args.chunk_count + kOrderTileChunks - 1) / kOrderTileChunks;
  }

  KERF_DEVICE_CODE static void Begin(const Args& /*args*/, Shared& /*shared*/,
                                     unsigned /*thread*/) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& /*local*/,
                                     unsigned tile, unsigned thread) {
    if constexpr (kPhase == 0) {
      for (unsigned index = thread; index < kOrderClasses; index += kBlockThreads) {
        shared.counts[index] = 0;
      }
    } else if constexpr (kPhase == 1) {
      const std::uint32_t rest = *args.chunk_count - tile * kOrderTileChunks;
      const unsigned own_count = rest < kOrderTileChunks ? rest : kOrderTileChunks;
      const Chunk* chunks = args.chunks + std::size_t{tile} * kOrderTileChunks;
      for (unsigned index = thread; index < own_count; index += kBlockThreads) {
        const std::uint32_t block_count = Sha256BlockCount(chunks[index].size_bytes);
        AtomicAdd(&shared.counts[OrderClass(block_count)], 1);
      }
    } else {
      std::uint32_t* counts = args.counts + std::size_t{tile} * kOrderClasses;
      for (unsigned index = thread; index < kOrderClasses; index += kBlockThreads) {
        counts[index] = shared.counts[index];
      }
    }
  }
};

// order: the numbers of the chunks, each once, by class. Within a class and a tile in any order.
// Sets next_group, from which Sha256Chunks counts, to 0.
struct OrderPlaces {
  struct Args {
    const Chunk* chunks;
    const std::uint32_t* chunk_count;
    const std::uint32_t* counts;
    std::uint32_t* order;
    std::uint32_t* next_group;
  };
  static constexpr unsigned kBlockThreads = 256;
  static constexpr int kPhaseCount = 4;
  static constexpr unsigned kThreadClasses = kOrderClasses / kBlockThreads;
  struct Shared {
    BlockScan<kBlockThreads> scan;
    std::uint32_t places[kOrderClasses];
  };
  struct Local {
    // Of its classes: the chunks of the tiles before this one, and of all.
    std::uint32_t before[kThreadClasses];
    std::uint32_t all[kThreadClasses];
  };

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return (*args.chunk_count + kOrderTileChunks - 1) / kOrderTileChunks;
  }

  KERF_DEVICE_CODE static void Begin(const Args& /*args*/, Shared& /*shared*/,
                                     unsigned /*thread*/) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    if constexpr (kPhase == 0) {
      if (tile == 0 && thread == 0) *args.next_group = 0;
      const unsigned tile_count = TileCount(args);
      for (unsigned other = 0; other < tile_count; ++other) {
        const std::uint32_t* counts =
            args.counts + std::size_t{other} * kOrderClasses + thread * kThreadClasses;
        KERF_UNROLL
        for (unsigned index = 0; index < kThreadClasses; ++index) {
          local.all[index] += counts[index];
          if (other < tile) local.before[index] += counts[index];
        }
      }
      std::uint32_t sum = 0;
      KERF_UNROLL
      for (unsigned index = 0; index < kThreadClasses; ++index) sum += local.all[index];
      shared.scan.Put(thread, sum);
    } else if constexpr (kPhase == 1) {
      shared.scan.SumGroups(thread);
    } else if constexpr (kPhase == 2) {
      std::uint32_t first = shared.scan.Before(thread);
      KERF_UNROLL
      for (unsigned index = 0; index < kThreadClasses; ++index) {
        shared.places[thread * kThreadClasses + index] = first + local.before[index];
        first += local.all[index];
      }
    } else {
      const std::uint32_t begin = tile * kOrderTileChunks;
      const std::uint32_t rest = *args.chunk_count - begin;
      const unsigned own_count = rest < kOrderTileChunks ? rest : kOrderTileChunks;
      for (unsigned index = thread; index < own_count; index += kBlockThreads) {
        const std::uint32_t block_count = Sha256BlockCount(args.chunks[begin + index].size_bytes);
        args.order[AtomicAdd(&shared.places[OrderClass(block_count)], 1)] = begin + index;
      }
    }
  }
};

}  // namespace kerf::cuda
