// K4: which nodes the path from each piece's beginning comes by, and how many chunks end before.
// Edges lead from lower to higher nodes. In a tile, jumping twice as far each time, all nodes find
// where their path leaves it; a thread a piece goes from tile to tile; and the tiles mark, with
// the same jumps, what lies on the path between.
#pragma once

#include <cstddef>
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
  static constexpr unsigned kThreadNodes = 4;
  static constexpr unsigned kBlockThreads = kRankTileNodes / kThreadNodes;
  static constexpr unsigned kProcessorBlocks = 1;
  struct Shared {
    // As far as the rounds so far jump.
    Exit jumps[kRankTileNodes];
    std::uint32_t ranks[kMarks ? kRankTileNodes : 1];
  };
  struct Local {
    // Nodes of the tile.
    std::uint32_t count;
    Exit jumps[kThreadNodes];
    // Where the node's jump of the last round leads if it stays in the tile; else kNoNode.
    std::uint32_t targets[kThreadNodes];
    // Of the target, if the node is on the path; else kUnreached.
    std::uint32_t ranks[kMarks ? kThreadNodes : 1];
  };
  // Nodes of a tile that a path comes by are at most 2^kRounds.
  static constexpr int kRounds = static_cast<int>(kRankTileRounds);
  static constexpr int kPhaseCount = 2 * kRounds + 2;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return CeilDivide(NodeCount(args), kRankTileNodes);
  }
  KERF_DEVICE_CODE static std::size_t MostTiles(const Args& args) {
    return CeilDivide(args.most_nodes, kRankTileNodes);
  }
  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t first = tile * kRankTileNodes;
    if constexpr (kPhase == 0) local.count = Min(kRankTileNodes, NodeCount(args) - first);
    const std::uint32_t count = local.count;
    // A path of few nodes has come to its end before.
    constexpr int kRound = (kPhase - 1) / 2;
    if (kPhase > 0 && kPhase < kPhaseCount - 1 && (1u << kRound) >= count) return;
    KERF_UNROLL
    for (unsigned index = 0; index < kThreadNodes; ++index) {
      const std::uint32_t own = index * kBlockThreads + thread;
      if (own >= count) continue;
      if constexpr (kPhase == 0) {
        local.jumps[index] = args.edges[first + own];
        shared.jumps[own] = local.jumps[index];
        if constexpr (kMarks) shared.ranks[own] = args.ranks[first + own];
      } else if constexpr (kPhase == kPhaseCount - 1) {
        if constexpr (kMarks) {
          args.ranks[first + own] = shared.ranks[own];
        } else {
          args.exits[first + own] = local.jumps[index];
          args.ranks[first + own] = kUnreached;
        }
      } else if constexpr (kPhase % 2 == 1) {
        Look(shared, local, index, own, first, count);
      } else if (local.targets[index] != kNoNode) {
        shared.jumps[own] = local.jumps[index];
        if constexpr (kMarks) {
          if (local.ranks[index] != kUnreached) {
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
    Exit& jump = local.jumps[index];
    // What is in a later tile is not below `count`, and so are kNoNode and kLostNode; edges lead
    // to no earlier one.
    const std::uint32_t target = jump.node - first;
    local.targets[index] = target < count ? target : kNoNode;
    if (target >= count) return;
    if constexpr (kMarks) {
      const std::uint32_t rank = shared.ranks[own];
      local.ranks[index] = rank == kUnreached ? kUnreached : rank + jump.chunk_count;
    }
    const Exit next = shared.jumps[target];
    jump = {next.node, jump.chunk_count + next.chunk_count};
  }
};

// Counts the chunks of each piece, and ranks the nodes at which its path comes into a tile.
struct PieceChunks {
  using Args = SelectionArgs;

  KERF_DEVICE_CODE static std::uint32_t ItemCount(const Args& args) {
    return args.header->piece_count;
  }
  KERF_DEVICE_CODE static PrefixSums Sums(const Args& args) { return args.piece_chunks; }
  KERF_DEVICE_CODE static std::size_t MostItems(const Args& args) { return args.most_pieces; }
  KERF_DEVICE_CODE static std::uint32_t* BlocksDone(const Args& args) {
    return args.blocks_done + 2;
  }

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
