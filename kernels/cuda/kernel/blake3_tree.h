// Where the nodes of many BLAKE3 trees lie, one tree a chunk, and how many there are of them: what
// the kernels of FINGERPRINTS.md number their threads by.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/prefix_sums.h"
#include "kernels/cuda/launch/portable.h"
#include "kernels/fingerprint/blake3_constants.h"

namespace kerf::cuda {

// A launch makes one node of up to eight, which is three levels of the tree: a launch for every
// level would cost more than what it hashes, and of more at once few threads would have work to the
// end.
inline constexpr unsigned kTreeFanLog2 = 3;
inline constexpr unsigned kTreeFan = 1u << kTreeFanLog2;

// An empty chunk has one leaf, too.
KERF_DEVICE_CODE constexpr std::uint32_t LeafCount(std::uint32_t size_bytes) {
  constexpr std::uint32_t kLeafBytes = blake3::kLeafBytes;
  return size_bytes == 0 ? 1 : (size_bytes - 1) / kLeafBytes + 1;
}

// A chunk's nodes of a level, after so many passes of parents; the leaves are level 0.
KERF_DEVICE_CODE constexpr std::uint32_t NodeCount(std::uint32_t leaf_count, unsigned level) {
  const unsigned shift = kTreeFanLog2 * level;
  return (leaf_count + (1u << shift) - 1) >> shift;
}

// The place of a chunk's first node among those of all chunks of the level; `first_leaf` is the
// number of leaves of the chunks before it. A chunk's nodes may be fewer than the places up to the
// next chunk's first one, never more: of n leaves, n / 8^level rounded down or more places follow
// from the first term, one from the second, and it has n / 8^level nodes, rounded up.
KERF_DEVICE_CODE constexpr std::uint32_t FirstNode(std::uint32_t first_leaf, std::uint32_t chunk,
                                                   unsigned level) {
  return (first_leaf >> kTreeFanLog2 * level) + (level == 0 ? 0 : chunk);
}

// The chunk that a place of a level belongs to. `first_leaves` is of `chunk_count` chunks, at least
// 1, which have a leaf at least. A search by each thread is cheap beside a leaf: the entries that
// all searches read are near, in the first-level cache. Each step waits for its loads, so that it
// has three of them and divides by four.
KERF_DEVICE_CODE std::uint32_t ChunkOfNode(const PrefixSums& first_leaves,
                                           std::uint32_t chunk_count, std::uint32_t node,
                                           unsigned level) {
  std::uint32_t low = 0;
  std::uint32_t high = chunk_count;
  while (high - low > 1) {
    const std::uint32_t quarter = (high - low + 3) / 4;
    std::uint32_t chunks[3];
    bool is_behind[3];
    KERF_UNROLL
    for (unsigned index = 0; index < 3; ++index) {
      chunks[index] = Min(low + (index + 1) * quarter, high - 1);
      is_behind[index] =
          FirstNode(first_leaves.Before(chunks[index], chunk_count), chunks[index], level) <= node;
    }
    // What is in front of one that is behind is behind, too.
    KERF_UNROLL
    for (unsigned index = 0; index < 3; ++index) {
      if (is_behind[index]) low = chunks[index];
    }
    KERF_UNROLL
    for (unsigned index = 3; index-- > 0;) {
      if (!is_behind[index]) high = chunks[index];
    }
  }
  return low;
}

}  // namespace kerf::cuda
