// The walk from a node over the chunks that end at no candidate, to the first that does. Short ones
// are walked by a thread, long ones by a block (long_walks.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/cut.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// In the place of a chunk's number: none.
inline constexpr std::uint32_t kNoChunk = 0xFFFFFFFF;

// What a thread walks alone.
inline constexpr std::uint32_t kShortWalkChunks = 8;

template <class Rule>
struct RuleArgs {
  SelectionArgs selection;
  Rule rule;
};

struct Walk {
  // Where the walk stands.
  std::uint32_t start;
  // No node in front of it ends what begins there.
  std::uint32_t first_node;
  // Ends on the way.
  std::uint32_t chunk_count;
  // The candidate at which the last one is; kNoNode at the end of the piece; kNotYet.
  std::uint32_t node;
};

KERF_DEVICE_CODE PieceBounds BoundsOf(const SelectionArgs& args, std::uint32_t piece) {
  const Piece& it = args.pieces[piece];
  return {it.offset + it.size_bytes, it.is_end != 0, FirstNode(args, piece + 1)};
}

// A walk that begins at a node of the piece.
template <class Rule>
KERF_DEVICE_CODE Walk BeginWalk(const RuleArgs<Rule>& args, std::uint32_t piece,
                                std::uint32_t node) {
  const bool is_first = node == FirstNode(args.selection, piece);
  const std::uint32_t start = is_first ? args.selection.pieces[piece].offset
                                       : args.rule.StartBehind(args.selection.candidates[node]);
  return {start, node + 1, 0, kNotYet};
}

// Goes on by one chunk, which next(start, first_node) finds, and writes it if `first_chunk`, where
// the first one of the walk goes, is not kNoChunk.
template <class Next>
KERF_DEVICE_CODE void Advance(const SelectionArgs& args, const PieceBounds& bounds, Walk& walk,
                              std::uint32_t first_chunk, const Next& next) {
  if (walk.start == bounds.end) {
    walk.node = kNoNode;
    return;
  }
  const Cut cut = next(walk.start, walk.first_node);
  if (cut.size_bytes == 0) {
    walk.node = kNoNode;
    return;
  }
  if (first_chunk != kNoChunk) {
    args.chunks[first_chunk + walk.chunk_count] = {walk.start, cut.size_bytes};
  }
  walk.start += cut.size_bytes;
  walk.first_node = cut.first_node;
  ++walk.chunk_count;
  if (cut.node != kNoNode) walk.node = cut.node;
}

// The same; and what ends for another reason, but at a candidate's place, ends the walk, too: from
// there on it is that node's.
template <class Rule, class Next>
KERF_DEVICE_CODE void AdvanceToNode(const RuleArgs<Rule>& args, const PieceBounds& bounds,
                                    Walk& walk, std::uint32_t first_chunk, const Next& next) {
  const std::uint32_t first_node = walk.first_node;
  Advance(args.selection, bounds, walk, first_chunk, next);
  if (walk.node != kNotYet) return;
  const std::uint32_t* const candidates = args.selection.candidates;
  const std::uint32_t node =
      FirstFrom(candidates, first_node, bounds.node_end, walk.start - args.rule.StartBehind(0));
  if (node < bounds.node_end && args.rule.StartBehind(candidates[node]) == walk.start) {
    walk.node = node;
  }
}

template <class Rule>
KERF_DEVICE_CODE void AdvanceToNode(const RuleArgs<Rule>& args, const typename Rule::Tables& tables,
                                    const PieceBounds& bounds, Walk& walk,
                                    std::uint32_t first_chunk) {
  AdvanceToNode(args, bounds, walk, first_chunk,
                [&](std::uint32_t start, std::uint32_t first_node) {
                  return args.rule.Next(args.selection, tables, bounds, start, first_node);
                });
}

// Where in SelectionArgs::chunks the node's goes; kNoChunk if none begins there, or its piece is
// not cut here.
KERF_DEVICE_CODE std::uint32_t ChunkOf(const SelectionArgs& args, std::uint32_t piece,
                                       std::uint32_t node) {
  if (args.ranks[node] == kUnreached || args.cuts[piece].needs_cpu != 0) return kNoChunk;
  return args.piece_chunks.Before(piece, args.header->piece_count) + args.ranks[node];
}

// K3: the edges of the graph. A thread a node. Of a rule that compares candidates by numbers these
// are made once for all threads of the block.
template <class Rule>
struct Edges {
  using Args = RuleArgs<Rule>;
  static constexpr unsigned kBlockThreads = 128;
  static constexpr unsigned kProcessorBlocks = 10;
  // Of the last threads' nodes, those of the windows: more in wide ones, whose numbers each thread
  // makes itself.
  static constexpr unsigned kFurtherNodes = HasNumbers<Rule> ? 32 : 0;
  static constexpr unsigned kNumberCount = HasNumbers<Rule> ? kBlockThreads + kFurtherNodes : 1;
  struct Shared {
    typename Rule::Tables tables;
    // Of the block's candidates; not of the pieces' beginnings.
    std::uint32_t numbers[kNumberCount];
  };
  struct Local {};
  static constexpr int kPhaseCount = HasNumbers<Rule> ? 2 : 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return CeilDivide(NodeCount(args.selection), kBlockThreads);
  }
  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread) {
    args.rule.Load(shared.tables, thread, kBlockThreads);
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t first = tile * kBlockThreads;
    if constexpr (kPhase + 1 < kPhaseCount) {
      for (unsigned place = thread; place < kNumberCount; place += kBlockThreads) {
        FindNumber(args, shared, first, place);
      }
    } else {
      FindEdge(args, shared, first, thread);
    }
  }

 private:
  KERF_DEVICE_CODE static void FindNumber(const Args& args, Shared& shared, std::uint32_t first,
                                          unsigned place) {
    const SelectionArgs& selection = args.selection;
    const std::uint32_t node = first + place;
    if (node >= NodeCount(selection)) return;
    if (node == FirstNode(selection, selection.node_pieces[node])) return;
    shared.numbers[place] =
        args.rule.NumberOf(selection, shared.tables, selection.candidates[node]);
  }

  KERF_DEVICE_CODE static Cut Next(const Args& args, const Shared& shared,
                                   const PieceBounds& bounds, std::uint32_t first,
                                   std::uint32_t start, std::uint32_t first_node) {
    const SelectionArgs& selection = args.selection;
    if constexpr (HasNumbers<Rule>) {
      return args.rule.NextBy(
          selection, shared.tables, bounds, start, first_node, [&](std::uint32_t node) {
            return node - first < kNumberCount
                       ? shared.numbers[node - first]
                       : args.rule.NumberOf(selection, shared.tables, selection.candidates[node]);
          });
    } else {
      return args.rule.Next(selection, shared.tables, bounds, start, first_node);
    }
  }

  KERF_DEVICE_CODE static void FindEdge(const Args& args, const Shared& shared, std::uint32_t first,
                                        unsigned thread) {
    const SelectionArgs& selection = args.selection;
    const std::uint32_t node = first + thread;
    if (node >= NodeCount(selection)) return;
    const std::uint32_t piece = selection.node_pieces[node];
    if (selection.cuts[piece].needs_cpu != 0) {
      selection.edges[node] = {kLostNode, 0};
      return;
    }
    const PieceBounds bounds = BoundsOf(selection, piece);
    Walk walk = BeginWalk(args, piece, node);
    while (walk.node == kNotYet && walk.chunk_count < kShortWalkChunks) {
      AdvanceToNode(args, bounds, walk, kNoChunk,
                    [&](std::uint32_t start, std::uint32_t first_node) {
                      return Next(args, shared, bounds, first, start, first_node);
                    });
    }
    if (walk.node == kNotYet) {
      AtomicAdd(&selection.long_node_counts[piece], 1);
      selection.long_nodes[AtomicAdd(selection.long_node_count, 1)] = node;
    } else {
      selection.edges[node] = {walk.node, walk.chunk_count};
    }
  }
};

// K5: the chunks of the short walks, and what there is to say of each piece.
template <class Rule>
struct EmitChunks {
  using Args = RuleArgs<Rule>;
  struct Shared {
    typename Rule::Tables tables;
  };
  struct Local {};
  static constexpr unsigned kBlockThreads = 128;
  static constexpr unsigned kProcessorBlocks = 10;
  static constexpr int kPhaseCount = 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    // Each piece has a node at least; and one tile says that there are no chunks.
    return Max(1, Edges<Rule>::TileCount(args));
  }
  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread) {
    args.rule.Load(shared.tables, thread, kBlockThreads);
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned tile,
                                     unsigned thread) {
    const SelectionArgs& selection = args.selection;
    const std::uint32_t node = tile * kBlockThreads + thread;
    if (node == 0) {
      const std::uint32_t count = selection.header->piece_count;
      *selection.chunk_count = selection.piece_chunks.Before(count, count);
    }
    if (node >= NodeCount(selection)) return;
    const std::uint32_t piece = selection.node_pieces[node];
    if (node == FirstNode(selection, piece)) Summarize(selection, piece);
    const std::uint32_t first_chunk = ChunkOf(selection, piece, node);
    // Longer walks are a block's.
    if (first_chunk == kNoChunk || selection.edges[node].chunk_count > kShortWalkChunks) return;
    Emit(args, shared, piece, node, first_chunk);
  }

 private:
  KERF_DEVICE_CODE static void Summarize(const SelectionArgs& selection, std::uint32_t piece) {
    SelectedCuts& cuts = selection.cuts[piece];
    const std::uint32_t count = selection.header->piece_count;
    cuts.first_chunk = selection.piece_chunks.Before(piece, count);
    cuts.chunk_count = selection.piece_chunks.Before(piece + 1, count) - cuts.first_chunk;
    if (cuts.needs_cpu != 0) cuts.consumed_bytes = 0;
  }

  KERF_DEVICE_CODE static void Emit(const Args& args, const Shared& shared, std::uint32_t piece,
                                    std::uint32_t node, std::uint32_t first_chunk) {
    const SelectionArgs& selection = args.selection;
    const PieceBounds bounds = BoundsOf(selection, piece);
    Walk walk = BeginWalk(args, piece, node);
    const Exit edge = selection.edges[node];
    // Where the last chunk ends need not be found again, if not the bytes at hand ended the walk;
    // nearly all walks are of one chunk.
    const bool is_end_known = edge.chunk_count > 0 && (edge.node != kNoNode || bounds.is_end);
    const std::uint32_t walked_count = edge.chunk_count - (is_end_known ? 1 : 0);
    while (walk.chunk_count < walked_count) {
      Advance(selection, bounds, walk, first_chunk,
              [&](std::uint32_t start, std::uint32_t first_node) {
                return args.rule.Next(selection, shared.tables, bounds, start, first_node);
              });
    }
    if (is_end_known) {
      const std::uint32_t end = edge.node == kNoNode
                                    ? bounds.end
                                    : args.rule.StartBehind(selection.candidates[edge.node]);
      selection.chunks[first_chunk + walked_count] = {walk.start, end - walk.start};
      walk.start = end;
    }
    if (edge.node == kNoNode) {
      selection.cuts[piece].consumed_bytes = walk.start - selection.pieces[piece].offset;
    }
  }
};

}  // namespace kerf::cuda
