// Where a chunk ends, of the rules that have marks (kernels/twostage/mark.h: GearRule, LocalRule;
// wide_gear.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/cut.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// All kinds of rules, as one: offsets in the chunk from lead_bytes to first_bytes are hashed from
// 0, those from first_bytes have marks. A plain value; `Word` is a hash.
template <class Word>
struct BasicCutRule {
  // 256 values in device memory; a LocalRule, whose lead_bytes are its first_bytes, has none.
  const Word* table;
  Word strict_mask;
  Word loose_mask;
  std::uint32_t lead_bytes;
  std::uint32_t first_bytes;
  // Before it only what is strict ends a chunk, from there on what is loose.
  std::uint32_t avg_bytes;
  // The last bytes that are at hand have no marks that count.
  std::uint32_t behind_bytes;
  // Nor have those behind the last step from the chunk's beginning; a power of two.
  std::uint32_t step_bytes;
  // A chunk ends so far behind its mark.
  std::uint32_t after_bytes;
  std::uint32_t max_bytes;

  // What a block keeps of the rule in shared memory.
  struct Tables {
    Word gear[256];
  };

  KERF_DEVICE_CODE void Load(Tables& tables, unsigned thread, unsigned thread_count) const {
    if (table == nullptr) return;
    for (unsigned index = thread; index < 256; index += thread_count) {
      tables.gear[index] = table[index];
    }
  }

  KERF_DEVICE_CODE std::uint32_t FirstMarkBytes() const { return first_bytes; }
  KERF_DEVICE_CODE std::uint32_t BehindMarkBytes() const { return behind_bytes; }
  KERF_DEVICE_CODE std::uint32_t MinChunkBytes() const {
    return Min(lead_bytes + after_bytes, max_bytes);
  }

  KERF_DEVICE_CODE std::uint32_t StartBehind(std::uint32_t candidate) const {
    return PositionOf(candidate) + after_bytes;
  }

  // Whether a mark may be of one of the masks only, or of none. With one mask of 32 bits it is what
  // it says.
  KERF_DEVICE_CODE bool HasClasses() const { return sizeof(Word) > 4 || strict_mask != loose_mask; }

  // What a position is marked for, where all bytes that decide lie in its piece.
  KERF_DEVICE_CODE std::uint32_t ClassesOf(const SelectionArgs& args, const Tables& tables,
                                           std::uint32_t position) const {
    Word hash = 0;
    ForEachByte(args.bytes, position - (first_bytes - lead_bytes), position + 1,
                [&](std::uint32_t, std::uint32_t byte) { hash = (hash << 1) + tables.gear[byte]; });
    return ((hash & strict_mask) == 0 ? kStrictCandidate : 0) |
           ((hash & loose_mask) == 0 ? kLooseCandidate : 0);
  }

  KERF_DEVICE_CODE Cut Next(const SelectionArgs& args, const Tables& tables,
                            const PieceBounds& bounds, std::uint32_t start,
                            std::uint32_t node) const {
    const std::uint32_t size = Min(bounds.end - start, max_bytes);
    const std::uint32_t tested = size & ~(step_bytes - 1);
    const std::uint32_t lead_end = Min(tested, first_bytes);
    if (lead_bytes < lead_end) {
      const std::uint32_t cut = LeadCut(args.bytes, tables, start, lead_end);
      if (cut < lead_end) return {cut, kNoNode, node};
    }
    const std::uint32_t to = start + tested - Min(tested, behind_bytes);
    node = FirstFrom(args.candidates, node, bounds.node_end, start + first_bytes);
    for (; node < bounds.node_end; ++node) {
      const std::uint32_t candidate = args.candidates[node];
      const std::uint32_t position = PositionOf(candidate);
      if (position >= to) break;
      const std::uint32_t wanted =
          position < start + avg_bytes ? kStrictCandidate : kLooseCandidate;
      if ((candidate & wanted) != 0) return {position + after_bytes - start, node, node + 1};
    }
    const bool is_decided = bounds.is_end || bounds.end - start >= max_bytes;
    return {is_decided ? size : 0, kNoNode, node};
  }

 private:
  // visit(position, byte) for the positions [from, to). Bytes come in sixteens, which lie in the
  // batch.
  template <class Visit>
  KERF_DEVICE_CODE static void ForEachByte(const std::uint8_t* bytes, std::uint32_t from,
                                           std::uint32_t to, Visit visit) {
    for (std::uint32_t block = from & ~15u; block < to; block += 16) {
      const Vector16 vector = LoadReadOnly16(bytes + block);
      KERF_UNROLL
      for (unsigned index = 0; index < 16; ++index) {
        const std::uint32_t position = block + index;
        if (position < from || position >= to) continue;
        visit(position, vector.words[index / 4] >> (8 * (index % 4)) & 0xFF);
      }
    }
  }

  // The first offset from lead_bytes that the hash of the chunk's own bytes makes an end; lead_end
  // if none is.
  KERF_DEVICE_CODE std::uint32_t LeadCut(const std::uint8_t* bytes, const Tables& tables,
                                         std::uint32_t start, std::uint32_t lead_end) const {
    Word hash = 0;
    std::uint32_t cut = lead_end;
    ForEachByte(bytes, start + lead_bytes, start + lead_end,
                [&](std::uint32_t position, std::uint32_t byte) {
                  hash = (hash << 1) + tables.gear[byte];
                  const std::uint32_t offset = position - start;
                  const Word mask = offset < avg_bytes ? strict_mask : loose_mask;
                  if ((hash & mask) == 0) cut = Min(cut, offset);
                });
    return cut;
  }
};

using CutRule = BasicCutRule<std::uint32_t>;
using WideCutRule = BasicCutRule<std::uint64_t>;

}  // namespace kerf::cuda
