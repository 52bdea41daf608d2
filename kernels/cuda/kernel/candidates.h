// K2: from marks to a sorted list of candidates, piece behind piece. A piece that has
// more of them than its share of the list has none in it and is given to the CPU, so that what
// becomes of a piece does not depend on its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/piece_search.h"
#include "kernels/cuda/kernel/prefix_sums.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// A thread's share where threads look at marks together: what is loaded at once. Batches are of
// whole ones.
inline constexpr std::uint32_t kVectorPositions = 8 * sizeof(Vector16);
static_assert(kBatchAlignmentBytes % kVectorPositions == 0);
inline constexpr std::uint32_t kRowVectors = kRowPositions / kVectorPositions;

// `vector` counts from the batch's beginning; behind its end nothing is marked, whatever is in the
// memory there.
KERF_DEVICE_CODE Vector16 LoadMarks(const SelectionArgs& args, std::uint32_t vector) {
  if (vector >= args.header->size_bytes / kVectorPositions) return {};
  return LoadReadOnly16(reinterpret_cast<const std::uint8_t*>(args.marks) +
                        std::size_t{vector} * sizeof(Vector16));
}

KERF_DEVICE_CODE std::uint32_t CountMarks(const Vector16& marks) {
  return PopCount(marks.words[0]) + PopCount(marks.words[1]) + PopCount(marks.words[2]) +
         PopCount(marks.words[3]);
}

// Counts the marks of each row, whatever pieces they lie in. Neighbouring threads load
// neighbouring vectors.
struct RowMarks {
  using Args = SelectionArgs;
  struct Gathered {
    // Of each vector, a byte: 128 at most.
    std::uint8_t counts[kScanTileItems][kRowVectors];
  };

  KERF_DEVICE_CODE static std::uint32_t ItemCount(const Args& args) {
    return CeilDivide(args.header->size_bytes, kRowPositions);
  }
  KERF_DEVICE_CODE static PrefixSums Sums(const Args& args) { return args.row_marks; }
  KERF_DEVICE_CODE static std::size_t MostItems(const Args& args) { return args.most_rows; }
  KERF_DEVICE_CODE static std::uint32_t* BlocksDone(const Args& args) { return args.blocks_done; }

  KERF_DEVICE_CODE static void Gather(const Args& args, Gathered& gathered, unsigned tile,
                                      unsigned thread) {
    Vector16 marks[kRowVectors];
    KERF_UNROLL
    for (unsigned index = 0; index < kRowVectors; ++index) {
      const std::uint32_t vector = index * kScanTileItems + thread;
      marks[index] = LoadMarks(args, tile * kScanTileItems * kRowVectors + vector);
    }
    KERF_UNROLL
    for (unsigned index = 0; index < kRowVectors; ++index) {
      const std::uint32_t vector = index * kScanTileItems + thread;
      gathered.counts[vector / kRowVectors][vector % kRowVectors] =
          static_cast<std::uint8_t>(CountMarks(marks[index]));
    }
  }

  KERF_DEVICE_CODE static std::uint32_t Item(const Gathered& gathered, unsigned thread) {
    std::uint32_t count = 0;
    KERF_UNROLL
    for (unsigned index = 0; index < kRowVectors; ++index) count += gathered.counts[thread][index];
    return count;
  }
};

// The positions of a piece whose marks count.
struct PositionRange {
  std::uint32_t from;
  std::uint32_t to;
};

KERF_DEVICE_CODE PositionRange CountedPositions(const SelectionArgs& args, const Piece& piece) {
  const std::uint32_t from = piece.offset + args.first_bytes;
  const std::uint32_t behind = Min(args.behind_bytes, piece.size_bytes);
  return {from, Max(from, piece.offset + piece.size_bytes - behind)};
}

// The number of marks of the batch in front of a position.
KERF_DEVICE_CODE std::uint32_t MarksBefore(const SelectionArgs& args, std::uint32_t position) {
  const std::uint32_t row = position / kRowPositions;
  const std::uint32_t end = position / kVectorPositions;
  std::uint32_t count = args.row_marks.Before(row, RowMarks::ItemCount(args));
  // All of them under way at once.
  KERF_UNROLL
  for (unsigned index = 0; index < kRowVectors - 1; ++index) {
    const std::uint32_t vector = row * kRowVectors + index;
    if (vector < end) count += CountMarks(LoadMarks(args, vector));
  }
  const Vector16 last = LoadMarks(args, end);
  const std::uint32_t bits = position % kVectorPositions;
  KERF_UNROLL
  for (unsigned word = 0; word < 4; ++word) {
    if (bits >= (word + 1) * 32) {
      count += PopCount(last.words[word]);
    } else if (bits > word * 32) {
      count += PopCount(last.words[word] << (32 - bits % 32));
    }
  }
  return count;
}

// Counts the nodes of each piece and says which ones have too many.
struct PieceNodes {
  using Args = SelectionArgs;

  KERF_DEVICE_CODE static std::uint32_t ItemCount(const Args& args) {
    return args.header->piece_count;
  }
  KERF_DEVICE_CODE static PrefixSums Sums(const Args& args) { return args.piece_nodes; }
  KERF_DEVICE_CODE static std::size_t MostItems(const Args& args) { return args.most_pieces; }
  KERF_DEVICE_CODE static std::uint32_t* BlocksDone(const Args& args) {
    return args.blocks_done + 1;
  }
  KERF_DEVICE_CODE static void TakeSum(const Args& args, std::uint32_t sum) {
    *args.node_count = sum;
  }

  KERF_DEVICE_CODE static std::uint32_t Item(const Args& args, std::uint32_t index) {
    const Piece piece = args.pieces[index];
    const PositionRange range = CountedPositions(args, piece);
    std::uint32_t count = 0;
    if (range.from < range.to) {
      const std::uint32_t before = MarksBefore(args, range.from);
      count = MarksBefore(args, range.to) - before;
      args.marks_before[index] = before;
    }
    const bool is_dense =
        count > (piece.size_bytes >> args.candidate_bytes_log2) + kSpareCandidates;
    args.cuts[index] = {0, 0, 0, is_dense ? 1u : 0u};
    args.long_node_counts[index] = 0;
    return 1 + (is_dense ? 0 : count);
  }
};

// Writes the list of nodes. A thread loads a vector of marks, and each takes the marks of the tile
// by turns then, so that few marks among many positions keep few warps busy, which are full. A
// thread looks at a piece as well.
struct EmitCandidates {
  using Args = SelectionArgs;
  static constexpr unsigned kBlockThreads = 256;
  static constexpr std::uint32_t kTilePositions = kBlockThreads * kVectorPositions;
  static_assert(kBlockThreads % kRowVectors == 0);
  struct Shared {
    Vector16 marks[kBlockThreads];
    std::uint32_t counts[kBlockThreads];
    // Marks of the batch in front of each vector, and behind the last one.
    std::uint32_t before[kBlockThreads + 1];
    // Pieces that begin at the tile's first position or before it, and at its last one.
    std::uint32_t least_pieces;
    std::uint32_t most_pieces;
  };
  struct Local {
    // Marks of the batch in front of the vector's row.
    std::uint32_t before;
  };
  static constexpr int kPhaseCount = 3;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    const std::uint32_t tiles = CeilDivide(args.header->size_bytes, kTilePositions);
    // At least one, which sets what others count in.
    return Max(Max(1, tiles), CeilDivide(args.header->piece_count, kBlockThreads));
  }
  KERF_DEVICE_CODE static std::size_t MostTiles(const Args& args) {
    const std::uint32_t tiles = CeilDivide(args.most_rows, kTilePositions / kRowPositions);
    return Max(Max(1, tiles), CeilDivide(args.most_pieces, kBlockThreads));
  }
  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t index = tile * kBlockThreads + thread;
    if constexpr (kPhase == 0) {
      const Vector16 marks = LoadMarks(args, index);
      const std::uint32_t row_count = RowMarks::ItemCount(args);
      local.before = args.row_marks.Before(Min(index / kRowVectors, row_count), row_count);
      const std::uint32_t piece_count = args.header->piece_count;
      // Two threads of different warps.
      const std::uint32_t position = tile * kTilePositions;
      if (thread == 0) shared.least_pieces = PiecesUpTo(args.pieces, position, 0, piece_count);
      if (thread == kBlockThreads / 2) {
        shared.most_pieces =
            PiecesUpTo(args.pieces, position + (kTilePositions - 1), 0, piece_count);
      }
      if (index == 0) *args.long_node_count = 0;
      if (index < piece_count) args.node_pieces[FirstNode(args, index)] = index;
      shared.marks[thread] = marks;
      shared.counts[thread] = CountMarks(marks);
    } else if constexpr (kPhase == 1) {
      std::uint32_t before = local.before;
      for (unsigned vector = thread / kRowVectors * kRowVectors; vector < thread; ++vector) {
        before += shared.counts[vector];
      }
      shared.before[thread] = before;
      if (thread == kBlockThreads - 1)
        shared.before[kBlockThreads] = before + shared.counts[thread];
    } else {
      const std::uint32_t first = shared.before[0];
      const std::uint32_t count = shared.before[kBlockThreads] - first;
      for (std::uint32_t mark = thread; mark < count; mark += kBlockThreads) {
        Emit(args, shared, tile * kTilePositions, first + mark);
      }
    }
  }

 private:
  // `mark`: as many are in front of it in the batch.
  KERF_DEVICE_CODE static void Emit(const Args& args, const Shared& shared,
                                    std::uint32_t tile_position, std::uint32_t mark) {
    const std::uint32_t position = tile_position + PlaceOf(shared, mark);
    const std::uint32_t pieces =
        PiecesUpTo(args.pieces, position, shared.least_pieces, shared.most_pieces);
    if (pieces == 0) return;
    const std::uint32_t piece = pieces - 1;
    if (args.cuts[piece].needs_cpu != 0) return;
    const PositionRange range = CountedPositions(args, args.pieces[piece]);
    if (position < range.from || position >= range.to) return;
    const std::uint32_t node = FirstNode(args, piece) + 1 + mark - args.marks_before[piece];
    args.candidates[node] = Candidate(position, kLooseCandidate | kStrictCandidate);
    args.node_pieces[node] = piece;
  }

  // Where the mark is in the tile.
  KERF_DEVICE_CODE static std::uint32_t PlaceOf(const Shared& shared, std::uint32_t mark) {
    // The last vector with no more marks in front of it has it: those that have none are behind
    // others that have as many in front of them.
    unsigned vector = 0;
    KERF_UNROLL
    for (unsigned step = kBlockThreads / 2; step > 0; step /= 2) {
      if (shared.before[vector + step] <= mark) vector += step;
    }
    std::uint32_t left = mark - shared.before[vector];
    const Vector16 marks = shared.marks[vector];
    std::uint32_t word = marks.words[0];
    unsigned number = 0;
    KERF_UNROLL
    for (unsigned next = 1; next < 4; ++next) {
      const std::uint32_t count = PopCount(word);
      // No more than one of them is taken back: once it is found, it stays.
      if (number == next - 1 && left >= count) {
        left -= count;
        word = marks.words[next];
        number = next;
      }
    }
    for (; left > 0; --left) word &= word - 1;
    return vector * kVectorPositions + number * 32 + LowestBit(word);
  }
};

}  // namespace kerf::cuda
