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
  // The candidate at which the last one is; kNoNode at the end of the segment; kNotYet.
  std::uint32_t node;
};

KERF_DEVICE_CODE Piece PieceOf(const SelectionArgs& args, std::uint32_t segment) {
  const Segment& it = args.segments[segment];
  return {it.offset + it.size_bytes, it.is_end != 0, FirstNode(args, segment + 1)};
}

// A walk that begins at a node of the segment.
template <class Rule>
KERF_DEVICE_CODE Walk BeginWalk(const RuleArgs<Rule>& args, std::uint32_t segment,
                                std::uint32_t node) {
  const bool is_first = node == FirstNode(args.selection, segment);
  const std::uint32_t start = is_first ? args.selection.segments[segment].offset
                                       : args.rule.StartBehind(args.selection.candidates[node]);
  return {start, node + 1, 0, kNotYet};
}

// Goes on by one chunk, and writes it if `first_chunk`, where the first one of the walk goes, is
// not kNoChunk.
template <class Rule>
KERF_DEVICE_CODE void Advance(const RuleArgs<Rule>& args, const typename Rule::Tables& tables,
                              const Piece& piece, Walk& walk, std::uint32_t first_chunk) {
  if (walk.start == piece.end) {
    walk.node = kNoNode;
    return;
  }
  const Cut cut = args.rule.Next(args.selection, tables, piece, walk.start, walk.first_node);
  if (cut.size_bytes == 0) {
    walk.node = kNoNode;
    return;
  }
  if (first_chunk != kNoChunk) {
    args.selection.chunks[first_chunk + walk.chunk_count] = {walk.start, cut.size_bytes};
  }
  walk.start += cut.size_bytes;
  walk.first_node = cut.first_node;
  ++walk.chunk_count;
  if (cut.node != kNoNode) walk.node = cut.node;
}

// The same; and what ends for another reason, but at a candidate's place, ends the walk, too: from
// there on it is that node's.
template <class Rule>
KERF_DEVICE_CODE void AdvanceToNode(const RuleArgs<Rule>& args, const typename Rule::Tables& tables,
                                    const Piece& piece, Walk& walk, std::uint32_t first_chunk) {
  const std::uint32_t first_node = walk.first_node;
  Advance(args, tables, piece, walk, first_chunk);
  if (walk.node != kNotYet) return;
  const std::uint32_t* const candidates = args.selection.candidates;
  const std::uint32_t node =
      FirstFrom(candidates, first_node, piece.node_end, walk.start - args.rule.StartBehind(0));
  if (node < piece.node_end && args.rule.StartBehind(candidates[node]) == walk.start) {
    walk.node = node;
  }
}

// Where in SelectionArgs::chunks the node's goes; kNoChunk if none begins there, or its segment is
// not cut here.
KERF_DEVICE_CODE std::uint32_t ChunkOf(const SelectionArgs& args, std::uint32_t segment,
                                       std::uint32_t node) {
  if (args.ranks[node] == kUnreached || args.cuts[segment].needs_cpu != 0) return kNoChunk;
  return args.segment_chunks.Before(segment, args.header->segment_count) + args.ranks[node];
}

// K3: the edges of the graph. A thread a node.
template <class Rule>
struct Edges {
  using Args = RuleArgs<Rule>;
  struct Shared {
    typename Rule::Tables tables;
  };
  struct Local {};
  static constexpr unsigned kBlockThreads = 128;
  static constexpr unsigned kProcessorBlocks = 10;
  static constexpr int kPhaseCount = 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return CeilDivide(NodeCount(args.selection), kBlockThreads);
  }
  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread) {
    args.rule.Load(shared.tables, thread, kBlockThreads);
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned tile,
                                     unsigned thread) {
    const SelectionArgs& selection = args.selection;
    const std::uint32_t node = tile * kBlockThreads + thread;
    if (node >= NodeCount(selection)) return;
    const std::uint32_t segment = selection.node_segments[node];
    if (selection.cuts[segment].needs_cpu != 0) {
      selection.edges[node] = {kLostNode, 0};
      return;
    }
    const Piece piece = PieceOf(selection, segment);
    Walk walk = BeginWalk(args, segment, node);
    while (walk.node == kNotYet && walk.chunk_count < kShortWalkChunks) {
      AdvanceToNode(args, shared.tables, piece, walk, kNoChunk);
    }
    if (walk.node == kNotYet) {
      AtomicAdd(&selection.long_node_counts[segment], 1);
      selection.long_nodes[AtomicAdd(selection.long_node_count, 1)] = node;
    } else {
      selection.edges[node] = {walk.node, walk.chunk_count};
    }
  }
};

// K5: the chunks of the short walks, and what there is to say of each segment.
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
    // Each segment has a node at least; and one tile says that there are no chunks.
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
      const std::uint32_t count = selection.header->segment_count;
      *selection.chunk_count = selection.segment_chunks.Before(count, count);
    }
    if (node >= NodeCount(selection)) return;
    const std::uint32_t segment = selection.node_segments[node];
    if (node == FirstNode(selection, segment)) Summarize(selection, segment);
    const std::uint32_t first_chunk = ChunkOf(selection, segment, node);
    // Longer walks are a block's.
    if (first_chunk == kNoChunk || selection.edges[node].chunk_count > kShortWalkChunks) return;
    Emit(args, shared, segment, node, first_chunk);
  }

 private:
  KERF_DEVICE_CODE static void Summarize(const SelectionArgs& selection, std::uint32_t segment) {
    SegmentCuts& cuts = selection.cuts[segment];
    const std::uint32_t count = selection.header->segment_count;
    cuts.first_chunk = selection.segment_chunks.Before(segment, count);
    cuts.chunk_count = selection.segment_chunks.Before(segment + 1, count) - cuts.first_chunk;
    if (cuts.needs_cpu != 0) cuts.consumed_bytes = 0;
  }

  KERF_DEVICE_CODE static void Emit(const Args& args, const Shared& shared, std::uint32_t segment,
                                    std::uint32_t node, std::uint32_t first_chunk) {
    const Piece piece = PieceOf(args.selection, segment);
    Walk walk = BeginWalk(args, segment, node);
    const Exit edge = args.selection.edges[node];
    while (walk.chunk_count < edge.chunk_count) {
      Advance(args, shared.tables, piece, walk, first_chunk);
    }
    if (edge.node == kNoNode) {
      args.selection.cuts[segment].consumed_bytes =
          walk.start - args.selection.segments[segment].offset;
    }
  }
};

}  // namespace kerf::cuda
