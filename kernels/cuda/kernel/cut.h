// What the kernels of the selection ask of a rule, and what rules have in common.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// A rule is a plain value:
//   struct Tables {...};   // what a block keeps of it in shared memory
//   // By all threads of a block together, in one phase.
//   void Load(Tables& tables, unsigned thread, unsigned thread_count) const;
//   // Offsets in a piece that marks count from, and how many at its end have none that does.
//   std::uint32_t FirstMarkBytes() const;
//   std::uint32_t BehindMarkBytes() const;
//   // No chunk is larger.
//   std::uint32_t max_bytes;
//   // No chunk is smaller, but a stream's last.
//   std::uint32_t MinChunkBytes() const;
//   // Where a chunk begins that begins behind a candidate.
//   std::uint32_t StartBehind(std::uint32_t candidate) const;
//   // The end of the chunk that begins at `start`. No node in front of `node` can end it.
//   Cut Next(const SelectionArgs& args, const Tables& tables, const PieceBounds& bounds,
//            std::uint32_t start, std::uint32_t node) const;
//   // Only of a rule that compares candidates by a number each: that, and Next for numbers that
//   are
//   // known, number_of(node).
//   std::uint32_t NumberOf(const SelectionArgs& args, const Tables& tables,
//                          std::uint32_t candidate) const;
//   Cut NextBy(const SelectionArgs& args, const Tables& tables, const PieceBounds& bounds,
//              std::uint32_t start, std::uint32_t node, const Numbers& number_of) const;

// Of a piece, what a rule asks for.
struct PieceBounds {
  std::uint32_t end;
  bool is_end;
  // Behind its last node.
  std::uint32_t node_end;
};

// A chunk's end.
struct Cut {
  // Of the chunk; 0: the bytes of the piece do not decide.
  std::uint32_t size_bytes;
  // The candidate that it is; kNoNode if none.
  std::uint32_t node;
  // No node in front of it can end a later chunk.
  std::uint32_t first_node;
};

template <class Rule>
concept HasNumbers =
    requires(const Rule& rule, const SelectionArgs& args, const typename Rule::Tables& tables,
             std::uint32_t candidate) { rule.NumberOf(args, tables, candidate); };

// The first of the nodes [node, end) at `position` or behind it; `end` if there is none. Looks
// near `node` first.
KERF_DEVICE_CODE std::uint32_t FirstFrom(const std::uint32_t* candidates, std::uint32_t node,
                                         std::uint32_t end, std::uint32_t position) {
  std::uint32_t step = 1;
  while (node + step <= end && PositionOf(candidates[node + step - 1]) < position) {
    node += step;
    step *= 2;
  }
  // Of [node, node + step - 1) the first, or what is behind them.
  std::uint32_t high = Min(end, node + step - 1);
  while (node < high) {
    const std::uint32_t middle = node + (high - node) / 2;
    if (PositionOf(candidates[middle]) < position) {
      node = middle + 1;
    } else {
      high = middle;
    }
  }
  return node;
}

}  // namespace kerf::cuda
