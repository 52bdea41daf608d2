// Walks over many chunks that end at no candidate: runs of one byte, short periods, holes of files.
// A block goes over one together: such chunks are mostly of one size, so one thread finds the size,
// and all of them look how often in a row it comes: thread t whether a chunk of that size begins
// where t, t + 256, ... of them would have ended. A round ends where one is of another size; what
// is behind it was looked at in vain. That is why a round tries more only when all went well in the
// one before.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/cut.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/kernel/walks.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// A walk that takes more rounds is given up: only data made for it has so many sizes without a
// mark.
inline constexpr std::uint32_t kMaxWalkRounds = 256;

// Long walks that a piece may have beside one for eight of the smallest chunks: where more
// candidates are not worth to be one, walks would be long and many.
inline constexpr std::uint32_t kFreeLongWalks = 1024;

// Without kEmits the edges of long nodes (K3), with it their chunks (K5).
template <class Rule, bool kEmits>
struct LongWalks {
  using Args = RuleArgs<Rule>;
  struct Shared {
    typename Rule::Tables tables;
    Walk walk;
    // Of the walk, where it is written.
    std::uint32_t first_chunk;
    std::uint32_t round_count;
    // Of the chunks that are tried.
    std::uint32_t size_bytes;
    std::uint32_t try_count;
    std::uint32_t max_try_count;
    // The first that is of another size.
    std::uint32_t fit_count;
  };
  struct Local {};
  static constexpr unsigned kBlockThreads = 256;
  static constexpr unsigned kProcessorBlocks = 5;
  static constexpr int kPhaseCount = 3;
  // What one thread walks in a round; one at least, to find a size, and more to get past what is
  // odd between two runs.
  static constexpr unsigned kLoneChunks = 3;
  static constexpr std::uint32_t kMaxTryCount = 1u << 20;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return *args.selection.long_node_count;
  }
  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread) {
    args.rule.Load(shared.tables, thread, kBlockThreads);
    if (thread == 0) shared.walk.node = kNoNode;
  }
  KERF_DEVICE_CODE static bool Again(const Args&, const Shared& shared) {
    return shared.walk.node == kNotYet;
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned tile,
                                     unsigned thread) {
    const SelectionArgs& selection = args.selection;
    const std::uint32_t node = selection.long_nodes[tile];
    const std::uint32_t piece = selection.node_pieces[node];
    const PieceBounds bounds = BoundsOf(selection, piece);
    if constexpr (kPhase == 0) {
      if (thread == 0) WalkAlone(args, shared, bounds, piece, node);
    } else if constexpr (kPhase == 1) {
      for (std::uint32_t count = thread; count < shared.try_count; count += kBlockThreads) {
        const std::uint32_t start = shared.walk.start + count * shared.size_bytes;
        const Cut cut =
            args.rule.Next(selection, shared.tables, bounds, start, shared.walk.first_node);
        if (cut.size_bytes != shared.size_bytes || cut.node != kNoNode) {
          AtomicMin(&shared.fit_count, count);
          break;
        }
      }
    } else {
      if (shared.first_chunk != kNoChunk) {
        Chunk* const chunks = selection.chunks + shared.first_chunk + shared.walk.chunk_count;
        for (std::uint32_t count = thread; count < shared.fit_count; count += kBlockThreads) {
          chunks[count] = {shared.walk.start + count * shared.size_bytes, shared.size_bytes};
        }
      }
      if (thread == 0 && shared.walk.node != kNotYet) Finish(selection, shared, piece, node);
    }
  }

 private:
  KERF_DEVICE_CODE static void WalkAlone(const Args& args, Shared& shared,
                                         const PieceBounds& bounds, std::uint32_t piece,
                                         std::uint32_t node) {
    Walk walk = shared.walk;
    if (walk.node != kNotYet) {
      // The block's first round on this tile.
      walk = BeginWalk(args, piece, node);
      shared.first_chunk = kEmits ? ChunkOf(args.selection, piece, node) : kNoChunk;
      shared.round_count = 0;
      shared.max_try_count = kBlockThreads;
      const std::uint32_t allowed = kFreeLongWalks + args.selection.pieces[piece].size_bytes /
                                                         (8 * args.rule.MinChunkBytes());
      if (args.selection.long_node_counts[piece] > allowed) walk.node = kLostNode;
      if (kEmits && shared.first_chunk == kNoChunk) walk.node = kLostNode;
    } else {
      const bool is_regular = shared.fit_count == shared.try_count;
      shared.max_try_count =
          is_regular ? Min(4 * shared.max_try_count, kMaxTryCount) : kBlockThreads;
      walk.start += shared.fit_count * shared.size_bytes;
      walk.chunk_count += shared.fit_count;
      if (++shared.round_count == kMaxWalkRounds) walk.node = kLostNode;
    }
    std::uint32_t start = walk.start;
    for (unsigned step = 0; step < kLoneChunks && walk.node == kNotYet; ++step) {
      start = walk.start;
      AdvanceToNode(args, shared.tables, bounds, walk, shared.first_chunk);
    }
    shared.try_count = 0;
    if (walk.node == kNotYet) {
      shared.size_bytes = walk.start - start;
      // Up to the next candidate, since behind it another size is likely; and what costs no time,
      // because candidates may all lie where a chunk's first bytes are.
      const std::uint32_t* const candidates = args.selection.candidates;
      walk.first_node = FirstFrom(candidates, walk.first_node, bounds.node_end, walk.start);
      const std::uint32_t end =
          walk.first_node == bounds.node_end ? bounds.end : PositionOf(candidates[walk.first_node]);
      const std::uint32_t free_count = CeilDivide(end - walk.start, shared.size_bytes);
      const std::uint32_t all_count = CeilDivide(bounds.end - walk.start, shared.size_bytes);
      shared.try_count = Min(shared.max_try_count, Max(free_count, Min(all_count, kBlockThreads)));
    }
    shared.fit_count = shared.try_count;
    shared.walk = walk;
  }

  KERF_DEVICE_CODE static void Finish(const SelectionArgs& selection, const Shared& shared,
                                      std::uint32_t piece, std::uint32_t node) {
    if (!kEmits) {
      selection.edges[node] = {shared.walk.node, shared.walk.chunk_count};
    } else if (shared.walk.node == kNoNode) {
      selection.cuts[piece].consumed_bytes = shared.walk.start - selection.pieces[piece].offset;
    }
  }
};

}  // namespace kerf::cuda
