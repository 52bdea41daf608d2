// The BLAKE3 digests of a batch's chunks: which kernels run, in which order, and the memory that
// they need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/blake3_leaves.h"
#include "kernels/cuda/kernel/blake3_parents.h"
#include "kernels/cuda/kernel/blake3_tree.h"
#include "kernels/cuda/kernel/chunk_leaves.h"
#include "kernels/cuda/kernel/digest_words.h"
#include "kernels/cuda/kernel/prefix_sums.h"
#include "kernels/fingerprint/blake3_constants.h"

namespace kerf::cuda {

// What the kernels work in. For chunks of so many bytes, added up, and so many of them: as many as
// the batch has, or as it may have, if the host does not know the number.
struct Blake3WorkspaceSize {
  // Of PrefixSums.
  std::size_t leaf_item_count;
  std::size_t leaf_total_count;
  // Of the levels, by turns.
  std::size_t even_node_count;
  std::size_t odd_node_count;

  constexpr Blake3WorkspaceSize(std::size_t total_bytes, std::size_t chunk_count)
      : leaf_item_count(chunk_count),
        leaf_total_count(ScanTotalCount(chunk_count)),
        // Each chunk has at most one leaf that is not full.
        even_node_count(total_bytes / blake3::kLeafBytes + chunk_count),
        odd_node_count(even_node_count / kTreeFan + chunk_count) {
    // Level 2 is in the place of the leaves, of which there are more unless most chunks have one.
    even_node_count =
        std::max(even_node_count, even_node_count / (kTreeFan * kTreeFan) + chunk_count);
  }

  constexpr std::size_t Bytes() const {
    return (even_node_count + odd_node_count) * sizeof(DigestWords) +
           (leaf_item_count + leaf_total_count) * sizeof(std::uint32_t);
  }
};

struct Blake3Workspace {
  DigestWords* even_nodes;
  DigestWords* odd_nodes;
  PrefixSums first_leaves;
};

// take.operator()<T>(count) is called for each array, in one order. No array needs to be set to
// anything.
template <class Take>
constexpr Blake3Workspace TakeBlake3Workspace(const Blake3WorkspaceSize& size, Take& take) {
  Blake3Workspace workspace{};
  workspace.even_nodes = take.template operator()<DigestWords>(size.even_node_count);
  workspace.odd_nodes = take.template operator()<DigestWords>(size.odd_node_count);
  workspace.first_leaves.items = take.template operator()<std::uint32_t>(size.leaf_item_count);
  workspace.first_leaves.totals = take.template operator()<std::uint32_t>(size.leaf_total_count);
  return workspace;
}

// How often Blake3Parents runs where no chunk is larger than `max_chunk_bytes`: 2 up to 64 KiB, 7
// for the largest batch.
constexpr unsigned Blake3ParentPasses(std::uint32_t max_chunk_bytes) {
  unsigned passes = 0;
  while (NodeCount(LeafCount(max_chunk_bytes), passes) > 1) ++passes;
  return passes;
}
static_assert(Blake3ParentPasses(blake3::kLeafBytes) == 0);
static_assert(Blake3ParentPasses(64 << 10) == 2);
static_assert(Blake3ParentPasses(kMaxBatchBytes) == 7);

struct Blake3Batch {
  // The batch, as batch.h has it.
  const std::uint8_t* bytes;
  // Device memory: the number of chunks may be the result of the kernel before. They may overlap.
  const Chunk* chunks;
  const std::uint32_t* chunk_count;
  // No chunk is larger; what is known of the profile, else the size of the batch.
  std::uint32_t max_chunk_bytes;
  Blake3Workspace workspace;
  // One a chunk, in the order of the chunks.
  DigestWords* digests;
};

// Queues the kernels: launcher.Launch<Kernel>(args) for each, in order.
template <class Launcher>
void LaunchBlake3(const Blake3Batch& batch, Launcher& launcher) {
  const Blake3Workspace& workspace = batch.workspace;
  const ChunkLeaves::Args leaves{batch.chunks, batch.chunk_count, workspace.first_leaves};
  launcher.template Launch<ScanTiles<ChunkLeaves>>(leaves);
  launcher.template Launch<ScanTotals<ChunkLeaves>>(leaves);
  launcher.template Launch<Blake3Leaves>({batch.bytes, batch.chunks, batch.chunk_count,
                                          workspace.first_leaves, workspace.even_nodes,
                                          batch.digests});
  const unsigned passes = Blake3ParentPasses(batch.max_chunk_bytes);
  for (unsigned level = 1; level <= passes; ++level) {
    const bool is_odd = level % 2 == 1;
    launcher.template Launch<Blake3Parents>({batch.chunk_count, workspace.first_leaves, level,
                                             is_odd ? workspace.even_nodes : workspace.odd_nodes,
                                             is_odd ? workspace.odd_nodes : workspace.even_nodes,
                                             batch.digests});
  }
}

}  // namespace kerf::cuda
