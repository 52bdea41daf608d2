// Where a chunk ends, of the rules that have marks (kernels/twostage/mark.h: GearRule, LocalRule).
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/cut.h"
#include "kernels/cuda/kernel/portable.h"
#include "kernels/cuda/kernel/selection_args.h"

namespace kerf::cuda {

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
    return (candidate >> 1) + after_bytes;
  }

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
