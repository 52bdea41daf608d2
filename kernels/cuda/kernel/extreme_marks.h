// K1 for mincdc and maxcdc: marks the positions that can be the smallest of a chunk's window.
//
// Let a window be the positions [a, b]. Its smallest, the first of equals, is p. What is less than
// kLead behind a is tested when the chunk's end is searched (extreme_rule.h). Any other p is
// smaller than all of [p - kLead, p), which runs of a byte and short periods never are. And if the
// window is wider than two reaches, p has a whole reach of it on one side: it is smaller than that
// to its left, or none to its right is smaller. Both can be seen without knowing a and b. In
// numbers that look random few positions are left: 1.5 in a reach. Positions outside the piece
// have no part in it, so that p is found as well where the end of the stream cuts the window short.
//
// To look at groups of 16 positions takes fewer steps; all that a mark must be compared with are
// the groups that lie in the reach altogether, and the rest of its own. Pieces begin where groups
// begin.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/extreme_hash.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

inline constexpr std::uint32_t kGroupPositions = 16;
static_assert(kPieceAlignmentBytes % kGroupPositions == 0);
// A tile looks at so many groups on both sides of it.
inline constexpr std::uint32_t kMaxReachGroups = 64;

// How far marks look, for windows of `width` + 1 positions.
struct ExtremeReach {
  // Groups in front of its own that a mark is always smaller than.
  std::uint32_t lead_groups;
  // Groups on one of its sides.
  std::uint32_t side_groups;

  // What is less than that behind the beginning of a window may be its smallest without a mark.
  KERF_DEVICE_CODE std::uint32_t LeadPositions() const {
    return (lead_groups + 1) * kGroupPositions - 1;
  }
};

// Less than side_groups groups and a rest on both sides are a width of less than 32 side_groups +
// 29.
constexpr ExtremeReach ExtremeReachOf(std::uint32_t width) {
  constexpr std::uint32_t kRest = 2 * kGroupPositions - 3;
  // With 15, what repeats itself after less than 256 positions has no marks, and what does after
  // more has less than one in 256.
  constexpr std::uint32_t kLeadGroups = 15;
  const std::uint32_t widest = width < kRest ? 0 : (width - kRest) / (2 * kGroupPositions);
  const std::uint32_t sides = widest < kMaxReachGroups ? widest : kMaxReachGroups;
  return {sides < kLeadGroups ? sides : kLeadGroups, sides};
}

template <class Hash>
struct ExtremeMarksArgs {
  const BatchHeader* header;
  const std::uint8_t* bytes;
  const Piece* pieces;
  // Positions of a piece in front of min_bytes - 1 have no marks; at least 64.
  std::uint32_t min_bytes;
  ExtremeReach reach;
  Hash hash;
  // A word for each 32 positions of the batch.
  std::uint32_t* marks;
};

template <class Hash>
struct ExtremeMarks {
  using Args = ExtremeMarksArgs<Hash>;
  static constexpr unsigned kBlockThreads = 256;
  static constexpr std::uint32_t kTileGroups = 2048;
  static constexpr std::uint32_t kAllGroups = kTileGroups + 2 * kMaxReachGroups;
  // Minima of so many groups from each on.
  static constexpr std::uint32_t kSpanGroups = 8;
  struct Shared {
    typename Hash::Tables tables;
    std::uint32_t minima[kAllGroups];
    std::uint32_t spans[kAllGroups];
  };
  struct Local {};
  static constexpr int kPhaseCount = 3;

  // Positions of one piece, of which none is outside it.
  struct Range {
    std::uint32_t from;
    std::uint32_t to;
  };

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    constexpr std::uint32_t kTilePositions = kTileGroups * kGroupPositions;
    return (args.header->size_bytes + kTilePositions - 1) / kTilePositions;
  }
  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread) {
    args.hash.Load(shared.tables, thread, kBlockThreads);
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned tile,
                                     unsigned thread) {
    // Of the batch; in the first tile what is in front of the batch is skipped.
    const std::uint32_t first = tile * kTileGroups;
    const std::uint32_t end = args.header->size_bytes / kGroupPositions;
    if constexpr (kPhase == 0) {
      for (std::uint32_t index = thread; index < kAllGroups; index += kBlockThreads) {
        const std::uint32_t group = first + index - kMaxReachGroups;
        // No piece has a position to be compared with before the third.
        const bool is_inside = first + index >= kMaxReachGroups + 2 && group < end;
        shared.minima[index] = is_inside ? GroupMinimum(args, shared, group) : 0;
      }
    } else if constexpr (kPhase == 1) {
      for (std::uint32_t index = thread; index < kAllGroups; index += kBlockThreads) {
        std::uint32_t minimum = shared.minima[index];
        for (std::uint32_t next = 1; next < kSpanGroups; ++next) {
          minimum = Min(minimum, shared.minima[Min(index + next, kAllGroups - 1)]);
        }
        shared.spans[index] = minimum;
      }
    } else {
      for (std::uint32_t index = thread; index < kTileGroups / 2; index += kBlockThreads) {
        const std::uint32_t group = first + 2 * index;
        if (group >= end) break;
        args.marks[group / 2] =
            MarksOf(args, shared, first, group) | MarksOf(args, shared, first, group + 1) << 16;
      }
    }
  }

 private:
  KERF_DEVICE_CODE static std::uint32_t GroupMinimum(const Args& args, const Shared& shared,
                                                     std::uint32_t group) {
    std::uint32_t values[kGroupPositions];
    args.hash.Sixteen(args.bytes, shared.tables, group * kGroupPositions, values);
    std::uint32_t minimum = kNone;
    KERF_UNROLL
    for (unsigned index = 0; index < kGroupPositions; ++index) {
      minimum = Min(minimum, values[index]);
    }
    return minimum;
  }

  // Of the group's positions in `range`; kNone if there are none.
  KERF_DEVICE_CODE static std::uint32_t PartMinimum(const Args& args, const Shared& shared,
                                                    std::uint32_t group, const Range& range) {
    std::uint32_t values[kGroupPositions];
    args.hash.Sixteen(args.bytes, shared.tables, group * kGroupPositions, values);
    std::uint32_t minimum = kNone;
    KERF_UNROLL
    for (unsigned index = 0; index < kGroupPositions; ++index) {
      const std::uint32_t position = group * kGroupPositions + index;
      if (position >= range.from && position < range.to) minimum = Min(minimum, values[index]);
    }
    return minimum;
  }

  // Of the positions in `range` of the groups [from, to), which are not further from the tile than
  // kMaxReachGroups.
  KERF_DEVICE_CODE static std::uint32_t Minimum(const Args& args, const Shared& shared,
                                                std::uint32_t first, std::uint32_t from,
                                                std::uint32_t to, const Range& range) {
    std::uint32_t minimum = kNone;
    if (from + kSpanGroups <= to && from * kGroupPositions >= range.from &&
        to * kGroupPositions <= range.to) {
      for (std::uint32_t group = from; group < to; group += kSpanGroups) {
        // The last one has groups of the one before it, too.
        const std::uint32_t span = Min(group, to - kSpanGroups);
        minimum = Min(minimum, shared.spans[span + kMaxReachGroups - first]);
      }
      return minimum;
    }
    from = Max(from, range.from / kGroupPositions);
    to = Min(to, (range.to + kGroupPositions - 1) / kGroupPositions);
    for (std::uint32_t group = from; group < to; ++group) {
      const bool is_whole =
          group * kGroupPositions >= range.from && (group + 1) * kGroupPositions <= range.to;
      minimum = Min(minimum, is_whole ? shared.minima[group + kMaxReachGroups - first]
                                      : PartMinimum(args, shared, group, range));
    }
    return minimum;
  }

  // The positions of the piece in which the group's are; none outside of pieces.
  KERF_DEVICE_CODE static Range RangeOf(const Args& args, std::uint32_t group) {
    std::uint32_t low = 0;
    std::uint32_t high = args.header->piece_count;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (args.pieces[middle].offset <= group * kGroupPositions) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == 0) return {0, 0};
    const Piece& piece = args.pieces[low - 1];
    return {piece.offset + args.min_bytes - 1, piece.offset + piece.size_bytes};
  }

  // The group's marks, in the low bits.
  KERF_DEVICE_CODE static std::uint32_t MarksOf(const Args& args, const Shared& shared,
                                                std::uint32_t first, std::uint32_t group) {
    const Range range = RangeOf(args, group);
    const std::uint32_t begin = group * kGroupPositions;
    if (begin >= range.to || begin + kGroupPositions <= range.from) return 0;
    const ExtremeReach& reach = args.reach;
    const std::uint32_t lead_from = group - Min(group, reach.lead_groups);
    const std::uint32_t lead = Minimum(args, shared, first, lead_from, group, range);
    const std::uint32_t own = Minimum(args, shared, first, group, group + 1, range);
    if (own >= lead) return 0;
    const std::uint32_t side_from = group - Min(group, reach.side_groups);
    const std::uint32_t left = Min(lead, Minimum(args, shared, first, side_from, lead_from, range));
    const std::uint32_t right =
        Minimum(args, shared, first, group + 1, group + 1 + reach.side_groups, range);
    if (own >= left && own > right) return 0;
    return MarksOfValues(args, shared, group, range, lead, left, right);
  }

  KERF_DEVICE_CODE static std::uint32_t MarksOfValues(const Args& args, const Shared& shared,
                                                      std::uint32_t group, const Range& range,
                                                      std::uint32_t lead, std::uint32_t left,
                                                      std::uint32_t right) {
    std::uint32_t values[kGroupPositions];
    args.hash.Sixteen(args.bytes, shared.tables, group * kGroupPositions, values);
    // From the end to the beginning: those behind which nothing is smaller.
    std::uint32_t right_marks = 0;
    KERF_UNROLL
    for (unsigned down = 0; down < kGroupPositions; ++down) {
      const unsigned index = kGroupPositions - 1 - down;
      if (!IsIn(range, group, index)) continue;
      if (values[index] <= right) right_marks |= 1u << index;
      right = Min(right, values[index]);
    }
    // And the other way: those before which everything is greater.
    std::uint32_t lead_marks = 0;
    std::uint32_t left_marks = 0;
    KERF_UNROLL
    for (unsigned index = 0; index < kGroupPositions; ++index) {
      if (!IsIn(range, group, index)) continue;
      const std::uint32_t value = values[index];
      if (value < lead) lead_marks |= 1u << index;
      if (value < left) left_marks |= 1u << index;
      lead = Min(lead, value);
      left = Min(left, value);
    }
    return lead_marks & (left_marks | right_marks);
  }

  KERF_DEVICE_CODE static bool IsIn(const Range& range, std::uint32_t group, unsigned index) {
    const std::uint32_t position = group * kGroupPositions + index;
    return position >= range.from && position < range.to;
  }

  // The greatest number, and that of no positions at all: a position that has it is smaller than
  // none, so that it needs no mark.
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
};

}  // namespace kerf::cuda
