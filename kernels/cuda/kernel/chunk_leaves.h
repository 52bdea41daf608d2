// Numbers the BLAKE3 leaves of all chunks: what is summed up (prefix_sums.h) to know how many lie
// in front of each.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/blake3_tree.h"
#include "kernels/cuda/kernel/prefix_sums.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

struct ChunkLeaves {
  struct Args {
    const Chunk* chunks;
    const std::uint32_t* chunk_count;
    // Of the leaves by chunk.
    PrefixSums first_leaves;
  };

  KERF_DEVICE_CODE static std::uint32_t ItemCount(const Args& args) { return *args.chunk_count; }
  KERF_DEVICE_CODE static PrefixSums Sums(const Args& args) { return args.first_leaves; }
  KERF_DEVICE_CODE static std::uint32_t Item(const Args& args, std::uint32_t chunk) {
    return LeafCount(args.chunks[chunk].size_bytes);
  }
};

}  // namespace kerf::cuda
