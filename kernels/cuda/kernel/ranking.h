// K4: which nodes the path from each piece's beginning comes by, and how many chunks end before.
// Edges lead from lower to higher nodes. In a tile, jumping twice as far each time, all nodes find
// where their path leaves it; a thread a piece goes from tile to tile; and the tiles mark, with
// the same jumps, what lies on the path between.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/prefix_sums.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// Without kMarks makes `exits` and sets `ranks` back; with it `ranks`, of which those are known at
// which a path comes into a tile.
template <bool kMarks>
struct RankTiles {
  using Args = SelectionArgs;
  static constexpr unsigned kBlockThreads = 256;
  static constexpr unsigned kThreadNodes = kRankTileNodes / kBlockThreads;
  struct Shared {
    // As far as the rounds so far jump.
    Exit jumps[kRankTileNodes];
    std::uint32_t ranks[kMarks ? kRankTileNodes : 1];
  };
  struct Local {
    Exit jumps[kThreadNodes];
    // Where the node's jump leads, if it is on the path and the jump stays in the tile.
    std::uint32_t targets[kMarks ? kThreadNodes : 1];
    std::uint32_t ranks[kMarks ? kThreadNodes : 1];
  };
  // Nodes of a tile that a path comes by are at most 2^kRounds.
  static constexpr int kRounds = 10;
  static_assert(1u << kRounds == kRankTileNodes);
  static constexpr int kPhaseCount = 2 * kRounds + 2;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return CeilDivide(NodeCount(args), kRankTileNodes);
  }
  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t first = tile * kRankTileNodes;
    const std::uint32_t count = Min(kRankTileNodes, NodeCount(args) - first);
    KERF_UNROLL
    for (unsigned index = 0; index < kThreadNodes; ++index) {
      const std::uint32_t own = index * kBlockThreads + thread;
      if (own >= count) continue;
      if constexpr (kPhase == 0) {
        shared.jumps[own] = args.edges[first + own];
        if constexpr (kMarks) shared.ranks[own] = args.ranks[first + own];
      } else if constexpr (kPhase == kPhaseCount - 1) {
        if constexpr (kMarks) {
          args.ranks[first + own] = shared.ranks[own];
        } else {
          args.exits[first + own] = shared.jumps[own];
          args.ranks[first + own] = kUnreached;
        }
      } else if constexpr (kPhase % 2 == 1) {
        Look(shared, local, index, own, first, count);
      } else {
        shared.jumps[own] = local.jumps[index];
        if constexpr (kMarks) {
          if (local.targets[index] != kNoNode) {
            shared.ranks[local.targets[index]] = local.ranks[index];
          }
        }
      }
    }
  }

 private:
  // What the next phase writes.
  KERF_DEVICE_CODE static void Look(const Shared& shared, Local& local, unsigned index,
                                    std::uint32_t own, std::uint32_t first, std::uint32_t count) {
    Exit jump = shared.jumps[own];
    // What is in an earlier tile or in a later one is not below `count`, and so are kNoNode and
    // kLostNode.
    const std::uint32_t target = jump.node - first;
    const bool is_inside = jump.node < first + count;
    if constexpr (kMarks) {
      const bool is_marked = is_inside && shared.ranks[own] != kUnreached;
      local.targets[index] = is_marked ? target : kNoNode;
      local.ranks[index] = shared.ranks[own] + jump.chunk_count;
    }
    if (is_inside) {
      jump.node = shared.jumps[target].node;
      jump.chunk_count += shared.jumps[target].chunk_count;
    }
    local.jumps[index] = jump;
  }
};

// Counts the chunks of each piece, and ranks the nodes at which its path comes into a tile.
struct PieceChunks {
  using Args = SelectionArgs;

  KERF_DEVICE_CODE static std::uint32_t ItemCount(const Args& args) {
    return args.header->piece_count;
  }
  KERF_DEVICE_CODE static PrefixSums Sums(const Args& args) { return args.piece_chunks; }

  KERF_DEVICE_CODE static std::uint32_t Item(const Args& args, std::uint32_t piece) {
    std::uint32_t node = FirstNode(args, piece);
    std::uint32_t chunk_count = 0;
    while (node < kNotYet) {
      args.ranks[node] = chunk_count;
      const Exit exit = args.exits[node];
      chunk_count += exit.chunk_count;
      node = exit.node;
    }
    if (node == kNoNode) return chunk_count;
    args.cuts[piece].needs_cpu = 1;
    return 0;
  }
};

}  // namespace kerf::cuda
