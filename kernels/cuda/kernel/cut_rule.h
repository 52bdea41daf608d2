// Where a chunk ends, of the rules that have marks (kernels/twostage/mark.h: GearRule, LocalRule).
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/portable.h"
#include "kernels/cuda/kernel/selection_args.h"

namespace kerf::cuda {

// Of a segment, what a rule asks for.
struct Piece {
  std::uint32_t end;
  bool is_end;
  // Behind its last node.
  std::uint32_t node_end;
};

// A chunk's end.
struct Cut {
  // Of the chunk; 0: the bytes of the segment do not decide.
  std::uint32_t size_bytes;
  // The candidate that it is; kNoNode if none.
  std::uint32_t node;
  // No node in front of it can end a later chunk.
  std::uint32_t first_node;
};

// The first of the nodes [node, end) at `position` or behind it; `end` if there is none. Looks
// near `node` first.
KERF_DEVICE_CODE std::uint32_t FirstFrom(const std::uint32_t* candidates, std::uint32_t node,
                                         std::uint32_t end, std::uint32_t position) {
  std::uint32_t step = 1;
  while (node + step <= end && candidates[node + step - 1] >> 1 < position) {
    node += step;
    step *= 2;
  }
  // Of [node, node + step - 1) the first, or what is behind them.
  std::uint32_t high = Min(end, node + step - 1);
  while (node < high) {
    const std::uint32_t middle = node + (high - node) / 2;
    if (candidates[middle] >> 1 < position) {
      node = middle + 1;
    } else {
      high = middle;
    }
  }
  return node;
}

// Both kinds of rule, as one: offsets in the chunk from lead_bytes to first_bytes are hashed from
// 0, those from first_bytes have marks. A plain value.
struct CutRule {
  // 256 values in device memory; a LocalRule, whose lead_bytes are its first_bytes, has none.
  const std::uint32_t* table;
  std::uint32_t strict_mask;
  std::uint32_t loose_mask;
  std::uint32_t lead_bytes;
  std::uint32_t first_bytes;
  // Before it only what is strict ends a chunk.
  std::uint32_t avg_bytes;
  // The last bytes that are at hand have no marks that count.
  std::uint32_t behind_bytes;
  // A chunk ends so far behind its mark.
  std::uint32_t after_bytes;
  std::uint32_t max_bytes;

  // What a block keeps of the rule in shared memory.
  struct Tables {
    std::uint32_t gear[256];
  };

  // By all threads of a block together, in one phase.
  KERF_DEVICE_CODE void Load(Tables& tables, unsigned thread, unsigned thread_count) const {
    if (table == nullptr) return;
    for (unsigned index = thread; index < 256; index += thread_count) {
      tables.gear[index] = table[index];
    }
  }

  // Where a chunk begins that begins behind a candidate.
  KERF_DEVICE_CODE std::uint32_t StartBehind(std::uint32_t candidate) const {
    return (candidate >> 1) + after_bytes;
  }

  // The end of the chunk that begins at `start`, in front of the end of `piece`. No node in front
  // of `node` can end it.
  KERF_DEVICE_CODE Cut Next(const SelectionArgs& args, const Tables& tables, const Piece& piece,
                            std::uint32_t start, std::uint32_t node) const {
    const std::uint32_t size = Min(piece.end - start, max_bytes);
    const std::uint32_t lead_end = Min(size, first_bytes);
    if (lead_bytes < lead_end) {
      const std::uint32_t cut = LeadCut(args.bytes, tables, start, lead_end);
      if (cut < lead_end) return {cut, kNoNode, node};
    }
    const std::uint32_t to = start + size - Min(size, behind_bytes);
    node = FirstFrom(args.candidates, node, piece.node_end, start + first_bytes);
    for (; node < piece.node_end; ++node) {
      const std::uint32_t position = args.candidates[node] >> 1;
      if (position >= to) break;
      if ((args.candidates[node] & 1) != 0 || position >= start + avg_bytes) {
        return {position + after_bytes - start, node, node + 1};
      }
    }
    const bool is_decided = piece.is_end || piece.end - start >= max_bytes;
    return {is_decided ? size : 0, kNoNode, node};
  }

 private:
  // The first offset from lead_bytes that the hash of the chunk's own bytes makes an end; lead_end
  // if none is. Bytes come in sixteens, which lie in the batch.
  KERF_DEVICE_CODE std::uint32_t LeadCut(const std::uint8_t* bytes, const Tables& tables,
                                         std::uint32_t start, std::uint32_t lead_end) const {
    const std::uint32_t from = start + lead_bytes;
    const std::uint32_t to = start + lead_end;
    std::uint32_t hash = 0;
    std::uint32_t cut = lead_end;
    for (std::uint32_t block = from & ~15u; block < to && cut == lead_end; block += 16) {
      const Vector16 vector = LoadReadOnly16(bytes + block);
      KERF_UNROLL
      for (unsigned index = 0; index < 16; ++index) {
        const std::uint32_t position = block + index;
        if (position < from || position >= to) continue;
        hash = (hash << 1) + tables.gear[vector.words[index / 4] >> (8 * (index % 4)) & 0xFF];
        const std::uint32_t offset = position - start;
        const std::uint32_t mask = offset < avg_bytes ? strict_mask : loose_mask;
        if ((hash & mask) == 0) cut = Min(cut, offset);
      }
    }
    return cut;
  }
};

}  // namespace kerf::cuda
