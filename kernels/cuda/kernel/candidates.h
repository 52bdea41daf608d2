// K2: from marks to a sorted list of candidates, piece behind piece. A piece that has
// more of them than its share of the list has none in it and is given to the CPU, so that what
// becomes of a piece does not depend on its neighbours.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/prefix_sums.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// Counts the marks of each row, whatever pieces they lie in.
struct RowMarks {
  using Args = SelectionArgs;

  KERF_DEVICE_CODE static std::uint32_t ItemCount(const Args& args) {
    return CeilDivide(args.header->size_bytes, kRowPositions);
  }
  KERF_DEVICE_CODE static PrefixSums Sums(const Args& args) { return args.row_marks; }

  KERF_DEVICE_CODE static std::uint32_t Item(const Args& args, std::uint32_t row) {
    const auto* const marks =
        reinterpret_cast<const std::uint8_t*>(args.marks + row * (kRowPositions / 32));
    std::uint32_t count = 0;
    for (unsigned place = 0; place < kRowPositions / 8; place += sizeof(Vector16)) {
      const Vector16 vector = LoadReadOnly16(marks + place);
      for (unsigned index = 0; index < 4; ++index) count += PopCount(vector.words[index]);
    }
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
  std::uint32_t count = args.row_marks.Before(row, RowMarks::ItemCount(args));
  for (std::uint32_t word = row * (kRowPositions / 32); word < position / 32; ++word) {
    count += PopCount(args.marks[word]);
  }
  if (position % 32 != 0) count += PopCount(args.marks[position / 32] << (32 - position % 32));
  return count;
}

// Counts the nodes of each piece and says which ones have too many.
struct PieceNodes {
  using Args = SelectionArgs;

  KERF_DEVICE_CODE static std::uint32_t ItemCount(const Args& args) {
    return args.header->piece_count;
  }
  KERF_DEVICE_CODE static PrefixSums Sums(const Args& args) { return args.piece_nodes; }

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
    args.cuts[index].needs_cpu = is_dense ? 1 : 0;
    args.long_node_counts[index] = 0;
    return 1 + (is_dense ? 0 : count);
  }
};

// The last piece that begins at `position` or before it; kNoNode if none does.
KERF_DEVICE_CODE std::uint32_t PieceAt(const SelectionArgs& args, std::uint32_t position) {
  std::uint32_t low = 0;
  std::uint32_t high = args.header->piece_count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (args.pieces[middle].offset <= position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

// Writes the list of nodes. A thread looks at a word of marks, and at a piece.
struct EmitCandidates {
  using Args = SelectionArgs;
  static constexpr unsigned kBlockThreads = 256;
  static constexpr unsigned kRowWords = kRowPositions / 32;
  static_assert(kBlockThreads % kRowWords == 0);
  struct Shared {
    // Marks of each word.
    std::uint32_t counts[kBlockThreads];
  };
  struct Local {
    std::uint32_t marks;
  };
  static constexpr int kPhaseCount = 2;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    const std::uint32_t items =
        Max(RowMarks::ItemCount(args) * kRowWords, args.header->piece_count);
    // At least one, which sets what others count in.
    return Max(1, CeilDivide(items, kBlockThreads));
  }
  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t index = tile * kBlockThreads + thread;
    if constexpr (kPhase == 0) {
      local.marks = index < RowMarks::ItemCount(args) * kRowWords ? args.marks[index] : 0;
      shared.counts[thread] = PopCount(local.marks);
      if (index == 0) *args.long_node_count = 0;
      if (index < args.header->piece_count) {
        args.node_pieces[FirstNode(args, index)] = index;
      }
    } else {
      if (local.marks == 0) return;
      std::uint32_t before = args.row_marks.Before(index / kRowWords, RowMarks::ItemCount(args));
      for (unsigned word = thread / kRowWords * kRowWords; word < thread; ++word) {
        before += shared.counts[word];
      }
      Emit(args, index, local.marks, before);
    }
  }

 private:
  // `before`: marks in front of the word.
  KERF_DEVICE_CODE static void Emit(const Args& args, std::uint32_t word, std::uint32_t marks,
                                    std::uint32_t before) {
    std::uint32_t piece = PieceAt(args, word * 32 + LowestBit(marks));
    for (; marks != 0; marks &= marks - 1, ++before) {
      const std::uint32_t position = word * 32 + LowestBit(marks);
      while (piece + 1 < args.header->piece_count && args.pieces[piece + 1].offset <= position) {
        ++piece;
      }
      if (piece == kNoNode || args.cuts[piece].needs_cpu != 0) continue;
      const PositionRange range = CountedPositions(args, args.pieces[piece]);
      if (position < range.from || position >= range.to) continue;
      const std::uint32_t node = FirstNode(args, piece) + 1 + before - args.marks_before[piece];
      args.candidates[node] = Candidate(position, kLooseCandidate | kStrictCandidate);
      args.node_pieces[node] = piece;
    }
  }
};

}  // namespace kerf::cuda
