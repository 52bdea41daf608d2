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

  KERF_DEVICE_CODE std::uint32_t NumberOf(const SelectionArgs& args, const Tables& tables,
                                          std::uint32_t candidate) const {
    return hash.One(args.bytes, hash.LookupOf(tables, 0), PositionOf(candidate));
  }

  KERF_DEVICE_CODE Cut Next(const SelectionArgs& args, const Tables& tables,
                            const PieceBounds& bounds, std::uint32_t start,
                            std::uint32_t node) const {
    return NextBy(args, tables, bounds, start, node, [&](std::uint32_t other) {
      return NumberOf(args, tables, args.candidates[other]);
    });
  }

  template <class Numbers>
  KERF_DEVICE_CODE Cut NextBy(const SelectionArgs& args, const Tables& tables,
                              const PieceBounds& bounds, std::uint32_t start, std::uint32_t node,
                              const Numbers& number_of) const {
    const std::uint32_t left = bounds.end - start;
    if (!bounds.is_end && left < max_bytes) return {0, kNoNode, node};
    if (left <= min_bytes) return {left, kNoNode, node};
    const std::uint32_t from = start + min_bytes - 1;
    const std::uint32_t to = start + Min(left, max_bytes);
    const std::uint32_t lead_end = Min(from + lead_positions, to);
    Best best = FirstSmallest(args.bytes, hash.LookupOf(tables, 0), from, lead_end);
    node = FirstFrom(args.candidates, node, bounds.node_end, lead_end);
    std::uint32_t best_node = kNoNode;
    // Several at once, which need not wait for each other; the last one again where there are none.
    constexpr unsigned kCount = Hash::kWalkCandidates;
    for (std::uint32_t next = node; next < bounds.node_end; next += kCount) {
      std::uint32_t positions[kCount];
      KERF_UNROLL
      for (unsigned index = 0; index < kCount; ++index) {
        positions[index] = PositionOf(args.candidates[Min(next + index, bounds.node_end - 1)]);
      }
      if (positions[0] >= to) break;
      KERF_UNROLL
      for (unsigned index = 0; index < kCount; ++index) {
        const std::uint32_t other = Min(next + index, bounds.node_end - 1);
        const std::uint32_t value = number_of(other);
        if (positions[index] < to && value < best.value) {
          best = {positions[index], value};
          best_node = other;
        }
      }
    }
    return {best.position + 1 - start, best_node, best_node == kNoNode ? node : best_node + 1};
  }

 private:
  static constexpr std::uint32_t kGreatest = 0xFFFFFFFF;

  struct Best {
    std::uint32_t position;
    std::uint32_t value;
  };

  // Of the positions [from, to). First the sixteen that has it, then where it is.
  template <class Lookup>
  KERF_DEVICE_CODE Best FirstSmallest(const std::uint8_t* bytes, const Lookup& lookup,
                                      std::uint32_t from, std::uint32_t to) const {
    // Nothing is below the greatest number: where all have it the first position wins.
    Best best{from, kGreatest};
    std::uint32_t block = from & ~15u;
    std::uint32_t best_block = block;
    auto run = hash.RunFrom(bytes, lookup, block);
    using Values = std::uint32_t[16];
    const auto compare = [&](const Values& values) {
      std::uint32_t minimum = kGreatest;
      KERF_UNROLL
      for (unsigned index = 0; index < 16; ++index) minimum = Min(minimum, values[index]);
      if (minimum < best.value) {
        best.value = minimum;
        best_block = block;
      }
      block += 16;
    };
    const auto compare_part = [&] {
      Values values;
      run.Next(values);
      KERF_UNROLL
      for (unsigned index = 0; index < 16; ++index) {
        if (block + index < from || block + index >= to) values[index] = kGreatest;
      }
      compare(values);
    };
    if (block < from) compare_part();
    // Whose loads need not wait for each other.
    while (block + 16 * Hash::kWalkBlocks <= to) {
      KERF_UNROLL
      for (unsigned count = 0; count < Hash::kWalkBlocks; ++count) {
        Values values;
        run.Next(values);
        compare(values);
      }
    }
    while (block < to) compare_part();
    if (best.value == kGreatest) return best;
    Values values;
    hash.RunFrom(bytes, lookup, best_block).Next(values);
    KERF_UNROLL
    for (unsigned down = 0; down < 16; ++down) {
      const std::uint32_t position = best_block + 15 - down;
      if (values[15 - down] == best.value && position >= from) best.position = position;
    }
    return best;
  }
};

}  // namespace kerf::cuda
