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
//
// All groups are compared with those in front of them, a thread for eight of them; the few that are
// smaller, one in 16 of random data, go to a list, so that the threads that look at both sides of
// them stand side by side.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/extreme_hash.h"
#include "kernels/cuda/kernel/piece_search.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

inline constexpr std::uint32_t kGroupPositions = 16;
static_assert(kPieceAlignmentBytes % kGroupPositions == 0);
// A tile looks at so many groups on both sides of it.
inline constexpr std::uint32_t kMaxReachGroups = 64;
// Groups in front of its own that a mark is always smaller than. With 15, what repeats itself after
// less than 256 positions has no marks, and what does after more has less than one in 256.
inline constexpr std::uint32_t kMaxLeadGroups = 15;

// How far marks look, for windows of `width` + 1 positions.
struct ExtremeReach {
  // At most kMaxLeadGroups.
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
  const std::uint32_t widest = width < kRest ? 0 : (width - kRest) / (2 * kGroupPositions);
  const std::uint32_t sides = widest < kMaxReachGroups ? widest : kMaxReachGroups;
  return {sides < kMaxLeadGroups ? sides : kMaxLeadGroups, sides};
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
  // A word for each 32 positions of the batch, at a multiple of 16.
  std::uint32_t* marks;
};

template <class Hash>
struct ExtremeMarks {
  using Args = ExtremeMarksArgs<Hash>;
  static constexpr unsigned kBlockThreads = Hash::kMarkThreads;
  static constexpr unsigned kProcessorBlocks = Hash::kMarkBlocks;
  // Groups that a thread compares with those in front of them.
  static constexpr std::uint32_t kRowGroups = 8;
  static constexpr std::uint32_t kAllGroups = kBlockThreads * kRowGroups;
  static constexpr std::uint32_t kTileGroups = kAllGroups - 2 * kMaxReachGroups;
  static_assert(kMaxReachGroups % kRowGroups == 0);
  // Marks of a row are a vector.
  static_assert(kBatchAlignmentBytes % (kRowGroups * kGroupPositions) == 0);
  // A span is a group and so many in front of it.
  static constexpr std::uint32_t kSpanGroups = kMaxLeadGroups + 1;
  static_assert(kSpanGroups == 2 * kRowGroups);

  // What there is for each of the tile's groups and those on both sides.
  struct Groups {
    Vector16 vectors[kAllGroups / 4];

    KERF_DEVICE_CODE std::uint32_t& At(std::uint32_t index) {
      return vectors[index / 4].words[index % 4];
    }
    KERF_DEVICE_CODE std::uint32_t At(std::uint32_t index) const {
      return vectors[index / 4].words[index % 4];
    }
  };
  struct Shared {
    typename Hash::LaneTables tables;
    // Of the group's positions, those that are in the piece's windows; kNone if none are.
    Groups minima;
    // Of the span that ends with the group. Of those behind the first kSpanGroups - 1 groups.
    Groups spans;
    // By index, in no order: groups that are smaller than those in front of them.
    std::uint16_t list[kTileGroups];
    std::uint32_t list_count;
    // How many pieces begin at the first group or before it, and so for the last.
    std::uint32_t first_piece_count;
    std::uint32_t last_piece_count;
  };
  struct Local {};
  static constexpr int kPhaseCount = 4;

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
    // Groups are counted from that which has index 0, in the first tile in front of the batch: as
    // if there were kMaxReachGroups groups more.
    const std::uint32_t first = tile * kTileGroups;
    if constexpr (kPhase == 0) {
      FindPieces(args, shared, first, thread);
      ClearMarks(args, first, thread);
    } else if constexpr (kPhase == 1) {
      FindMinima(args, shared, first, thread);
    } else if constexpr (kPhase == 2) {
      FindSpans(args, shared, first, thread);
    } else {
      for (std::uint32_t place = thread; place < shared.list_count; place += kBlockThreads) {
        MarkGroup(args, shared, first, shared.list[place], thread);
      }
    }
  }

 private:
  // The greatest number, and that of no positions at all: a position that has it is smaller than
  // none, so that it needs no mark.
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  KERF_DEVICE_CODE static std::uint32_t PositionOf(std::uint32_t first, std::uint32_t index) {
    return (first + index - kMaxReachGroups) * kGroupPositions;
  }

  KERF_DEVICE_CODE static void FindPieces(const Args& args, Shared& shared, std::uint32_t first,
                                          unsigned thread) {
    const std::uint32_t count = args.header->piece_count;
    // In two warps, which need not wait for each other.
    if (thread == 0) {
      shared.list_count = 0;
      const std::uint32_t index = kMaxReachGroups - Min(first, kMaxReachGroups);
      shared.first_piece_count = PiecesUpTo(args.pieces, PositionOf(first, index), 0, count);
    } else if (thread == 32) {
      shared.last_piece_count =
          PiecesUpTo(args.pieces, PositionOf(first, kAllGroups - 1), 0, count);
    }
  }

  // The positions of the piece in which `position` is; none outside of pieces.
  KERF_DEVICE_CODE static Range RangeOf(const Args& args, const Shared& shared,
                                        std::uint32_t position) {
    const std::uint32_t count =
        PiecesUpTo(args.pieces, position, shared.first_piece_count, shared.last_piece_count);
    if (count == 0) return {0, 0};
    const Piece& piece = args.pieces[count - 1];
    return {piece.offset + args.min_bytes - 1, piece.offset + piece.size_bytes};
  }

  KERF_DEVICE_CODE static void ClearMarks(const Args& args, std::uint32_t first, unsigned thread) {
    const std::uint32_t position = (first + thread * kRowGroups) * kGroupPositions;
    if (thread < kTileGroups / kRowGroups && position < args.header->size_bytes) {
      Store16(args.marks + position / 32, Vector16{});
    }
  }

  KERF_DEVICE_CODE static void FindMinima(const Args& args, Shared& shared, std::uint32_t first,
                                          unsigned thread) {
    constexpr std::uint32_t kRun = Hash::kRunGroups;
    const auto lookup = args.hash.LookupOf(shared.tables, thread);
    // Whether no group's positions must be looked at one by one.
    bool is_plain = first >= kMaxReachGroups && shared.first_piece_count == shared.last_piece_count;
    if (is_plain) {
      const Range range = RangeOf(args, shared, PositionOf(first, 0));
      is_plain = range.from <= PositionOf(first, 0) && PositionOf(first, kAllGroups) <= range.to;
    }
    if (is_plain) {
      KERF_UNROLL
      for (std::uint32_t step = 0; step < kRowGroups / kRun; ++step) {
        const std::uint32_t index = (step * kBlockThreads + thread) * kRun;
        RunMinima(args, shared, lookup, first, index);
      }
      return;
    }
    for (std::uint32_t step = 0; step < kRowGroups / kRun; ++step) {
      const std::uint32_t index = (step * kBlockThreads + thread) * kRun;
      const std::uint32_t begin = PositionOf(first, index);
      // What is in front of the batch is all or nothing of a run.
      const bool is_inside = first + index >= kMaxReachGroups;
      const Range range = is_inside ? RangeOf(args, shared, begin) : Range{0, 0};
      if (is_inside && range.from <= begin && begin + kRun * kGroupPositions <= range.to) {
        RunMinima(args, shared, lookup, first, index);
      } else {
        for (std::uint32_t place = index; place < index + kRun; ++place) {
          shared.minima.At(place) = PartMinimum(args, shared, lookup, first, place);
        }
      }
    }
  }

  // Of groups that have no other positions than those in windows of a piece.
  template <class Lookup>
  KERF_DEVICE_CODE static void RunMinima(const Args& args, Shared& shared, const Lookup& lookup,
                                         std::uint32_t first, std::uint32_t index) {
    auto run = args.hash.RunFrom(args.bytes, lookup, PositionOf(first, index));
    std::uint32_t minima[Hash::kRunGroups];
    KERF_UNROLL
    for (std::uint32_t place = 0; place < Hash::kRunGroups; ++place) {
      std::uint32_t values[kGroupPositions];
      run.Next(values);
      minima[place] = Minimum(values);
    }
    if constexpr (Hash::kRunGroups % 4 == 0) {
      // At once, since a word of each thread would be a bank of few.
      KERF_UNROLL
      for (std::uint32_t place = 0; place < Hash::kRunGroups; place += 4) {
        shared.minima.vectors[(index + place) / 4] = {
            {minima[place], minima[place + 1], minima[place + 2], minima[place + 3]}};
      }
    } else {
      KERF_UNROLL
      for (std::uint32_t place = 0; place < Hash::kRunGroups; ++place) {
        shared.minima.At(index + place) = minima[place];
      }
    }
  }

  KERF_DEVICE_CODE static std::uint32_t Minimum(const std::uint32_t (&values)[kGroupPositions]) {
    std::uint32_t minimum = kNone;
    KERF_UNROLL
    for (unsigned index = 0; index < kGroupPositions; ++index) {
      minimum = Min(minimum, values[index]);
    }
    return minimum;
  }

  // Of the group's positions that are in windows of its piece.
  template <class Lookup>
  KERF_DEVICE_CODE static std::uint32_t PartMinimum(const Args& args, const Shared& shared,
                                                    const Lookup& lookup, std::uint32_t first,
                                                    std::uint32_t index) {
    if (first + index < kMaxReachGroups) return kNone;
    const Range range = RangeOf(args, shared, PositionOf(first, index));
    std::uint32_t values[kGroupPositions];
    return ValuesIn(args, lookup, range, PositionOf(first, index), values) ? Minimum(values)
                                                                           : kNone;
  }

  // The numbers of a group's positions, for those outside of the range kNone. False if all are
  // outside, without looking at them.
  template <class Lookup>
  KERF_DEVICE_CODE static bool ValuesIn(const Args& args, const Lookup& lookup, const Range& range,
                                        std::uint32_t begin,
                                        std::uint32_t (&values)[kGroupPositions]) {
    if (begin >= range.to || begin + kGroupPositions <= range.from) return false;
    args.hash.RunFrom(args.bytes, lookup, begin).Next(values);
    if (begin >= range.from && begin + kGroupPositions <= range.to) return true;
    KERF_UNROLL
    for (unsigned index = 0; index < kGroupPositions; ++index) {
      const std::uint32_t position = begin + index;
      if (position < range.from || position >= range.to) values[index] = kNone;
    }
    return true;
  }

  // Whether all groups that lie in a mark's lead are of its piece, or have no numbers. Between the
  // numbers of two pieces there are min_bytes - 1 positions that have none.
  KERF_DEVICE_CODE static bool IsLeadOfPiece(const Args& args, const Shared& shared) {
    return args.min_bytes > kMaxLeadGroups * kGroupPositions ||
           shared.first_piece_count == shared.last_piece_count;
  }

  // Spans of a thread's row, and which of its groups are smaller than what is in front of them.
  KERF_DEVICE_CODE static void FindSpans(const Args& args, Shared& shared, std::uint32_t first,
                                         unsigned thread) {
    constexpr unsigned kGroupVectors = kRowGroups / 4;
    const unsigned before = Max(thread, 1) - 1;
    const unsigned second_before = Max(thread, 2) - 2;
    // Of two rows before the thread's, what is behind a place in it; and all of the one before.
    std::uint32_t behind[kRowGroups];
    std::uint32_t whole = kNone;
    std::uint32_t minimum = kNone;
    KERF_UNROLL
    for (unsigned down = 0; down < kRowGroups; ++down) {
      const unsigned index = kRowGroups - 1 - down;
      behind[index] = minimum;
      minimum =
          Min(minimum,
              shared.minima.vectors[second_before * kGroupVectors + index / 4].words[index % 4]);
      whole =
          Min(whole, shared.minima.vectors[before * kGroupVectors + index / 4].words[index % 4]);
    }
    Vector16 spans[kGroupVectors];
    std::uint32_t small = 0;
    // All of the row up to a group.
    minimum = kNone;
    KERF_UNROLL
    for (unsigned index = 0; index < kRowGroups; ++index) {
      const std::uint32_t own =
          shared.minima.vectors[thread * kGroupVectors + index / 4].words[index % 4];
      const std::uint32_t lead = Min(minimum, Min(whole, behind[index]));
      if (own < lead) small |= 1u << index;
      spans[index / 4].words[index % 4] = Min(lead, own);
      minimum = Min(minimum, own);
    }
    KERF_UNROLL
    for (unsigned vector = 0; vector < kGroupVectors; ++vector) {
      shared.spans.vectors[thread * kGroupVectors + vector] = spans[vector];
    }
    const std::uint32_t index = thread * kRowGroups;
    if (index < kMaxReachGroups || index >= kMaxReachGroups + kTileGroups) return;
    if (args.reach.lead_groups < kMaxLeadGroups || !IsLeadOfPiece(args, shared)) {
      small = SmallGroups(args, shared, first, index);
    }
    if (small == 0) return;
    std::uint32_t place = AtomicAdd(&shared.list_count, PopCount(small));
    for (; small != 0; small &= small - 1) {
      shared.list[place++] = static_cast<std::uint16_t>(index + LowestBit(small));
    }
  }

  // The same bits for any lead.
  KERF_DEVICE_CODE static std::uint32_t SmallGroups(const Args& args, const Shared& shared,
                                                    std::uint32_t first, std::uint32_t index) {
    std::uint32_t small = 0;
    for (unsigned place = 0; place < kRowGroups; ++place) {
      const std::uint32_t group = index + place;
      const std::uint32_t own = shared.minima.At(group);
      if (own == kNone) continue;
      const Range range = RangeOf(args, shared, PositionOf(first, group));
      const std::uint32_t from = Max(FirstGroup(first, range), group - args.reach.lead_groups);
      std::uint32_t lead = kNone;
      for (std::uint32_t other = from; other < group; ++other) {
        lead = Min(lead, shared.minima.At(other));
      }
      if (own < lead) small |= 1u << place;
    }
    return small;
  }

  // The index of the first group that has a position in the range, and of the one behind the last;
  // of those that have an index.
  KERF_DEVICE_CODE static std::uint32_t FirstGroup(std::uint32_t first, const Range& range) {
    const std::uint32_t group = range.from / kGroupPositions + kMaxReachGroups;
    return group - Min(group, first);
  }
  KERF_DEVICE_CODE static std::uint32_t EndGroup(std::uint32_t first, const Range& range) {
    const std::uint32_t end =
        (range.to + kGroupPositions - 1) / kGroupPositions + kMaxReachGroups - first;
    return Min(end, kAllGroups);
  }

  // Of the groups [from, to) of one piece.
  KERF_DEVICE_CODE static std::uint32_t MinimumOf(const Shared& shared, std::uint32_t from,
                                                  std::uint32_t to) {
    std::uint32_t minimum = kNone;
    if (from + kSpanGroups <= to) {
      for (std::uint32_t end = from + kSpanGroups; end < to; end += kSpanGroups) {
        minimum = Min(minimum, shared.spans.At(end - 1));
      }
      // The last one has groups of the one before it, too.
      return Min(minimum, shared.spans.At(to - 1));
    }
    for (std::uint32_t index = from; index < to; ++index) {
      minimum = Min(minimum, shared.minima.At(index));
    }
    return minimum;
  }

  // Marks of a group that is smaller than its lead.
  KERF_DEVICE_CODE static void MarkGroup(const Args& args, const Shared& shared,
                                         std::uint32_t first, std::uint32_t index,
                                         unsigned thread) {
    const std::uint32_t begin = PositionOf(first, index);
    const Range range = RangeOf(args, shared, begin);
    const std::uint32_t side_groups = args.reach.side_groups;
    const std::uint32_t from = Max(FirstGroup(first, range), index - side_groups);
    const std::uint32_t to = Min(EndGroup(first, range), index + 1 + side_groups);
    const std::uint32_t own = shared.minima.At(index);
    const std::uint32_t left = MinimumOf(shared, from, index);
    const std::uint32_t right = MinimumOf(shared, index + 1, to);
    // What a mark is less than. Of the group's own, only the first of its smallest can have nothing
    // smaller behind it.
    std::uint32_t bound = own <= right ? Max(left, own + 1) : left;
    if (own >= bound) return;
    const auto lookup = args.hash.LookupOf(shared.tables, thread);
    std::uint32_t values[kGroupPositions];
    ValuesIn(args, lookup, range, begin, values);
    std::uint32_t marks = 0;
    KERF_UNROLL
    for (unsigned place = 0; place < kGroupPositions; ++place) {
      if (values[place] < bound) marks |= 1u << place;
      bound = Min(bound, values[place]);
    }
    AtomicOr(args.marks + begin / 32, marks << begin % 32);
  }
};

}  // namespace kerf::cuda
