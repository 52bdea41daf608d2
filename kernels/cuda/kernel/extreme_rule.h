// Where a chunk ends, of mincdc and maxcdc: behind the position with the smallest number of a
// window, the first of equals. The beginning of the window is looked at itself, behind it only what
// has a mark (extreme_marks.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/cut.h"
#include "kernels/cuda/kernel/extreme_hash.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// A plain value.
template <class Hash>
struct ExtremeRule {
  Hash hash;
  // At least 64.
  std::uint32_t min_bytes;
  std::uint32_t max_bytes;
  // Of ExtremeReach.
  std::uint32_t lead_positions;

  using Tables = typename Hash::Tables;

  KERF_DEVICE_CODE void Load(Tables& tables, unsigned thread, unsigned thread_count) const {
    hash.Load(tables, thread, thread_count);
  }

  KERF_DEVICE_CODE std::uint32_t FirstMarkBytes() const { return min_bytes - 1 + lead_positions; }
  KERF_DEVICE_CODE std::uint32_t BehindMarkBytes() const { return 0; }
  KERF_DEVICE_CODE std::uint32_t MinChunkBytes() const { return min_bytes; }

  KERF_DEVICE_CODE std::uint32_t StartBehind(std::uint32_t candidate) const {
    return PositionOf(candidate) + 1;
  }

  KERF_DEVICE_CODE Cut Next(const SelectionArgs& args, const Tables& tables,
                            const PieceBounds& bounds, std::uint32_t start,
                            std::uint32_t node) const {
    const std::uint32_t left = bounds.end - start;
    if (!bounds.is_end && left < max_bytes) return {0, kNoNode, node};
    if (left <= min_bytes) return {left, kNoNode, node};
    const std::uint32_t from = start + min_bytes - 1;
    const std::uint32_t to = start + Min(left, max_bytes);
    const std::uint32_t lead_end = Min(from + lead_positions, to);
    // Nothing is below the greatest number: where all have it the first position wins.
    Best best{from, 0xFFFFFFFF};
    for (std::uint32_t block = from & ~15u; block < lead_end; block += 16) {
      Look(args.bytes, tables, block, from, lead_end, best);
    }
    node = FirstFrom(args.candidates, node, bounds.node_end, lead_end);
    std::uint32_t best_node = kNoNode;
    for (std::uint32_t next = node; next < bounds.node_end; ++next) {
      const std::uint32_t position = PositionOf(args.candidates[next]);
      if (position >= to) break;
      Look(args.bytes, tables, position & ~15u, position, position + 1, best);
      if (best.position == position) best_node = next;
    }
    return {best.position + 1 - start, best_node, best_node == kNoNode ? node : best_node + 1};
  }

 private:
  struct Best {
    std::uint32_t position;
    std::uint32_t value;
  };

  // At the positions of a block that are in [from, to).
  KERF_DEVICE_CODE void Look(const std::uint8_t* bytes, const Tables& tables, std::uint32_t block,
                             std::uint32_t from, std::uint32_t to, Best& best) const {
    std::uint32_t values[16];
    hash.Sixteen(bytes, tables, block, values);
    KERF_UNROLL
    for (unsigned index = 0; index < 16; ++index) {
      const std::uint32_t position = block + index;
      if (position >= from && position < to && values[index] < best.value) {
        best = {position, values[index]};
      }
    }
  }
};

}  // namespace kerf::cuda
