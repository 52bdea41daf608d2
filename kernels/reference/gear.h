// Gear and MaxCDC in their plainest form: the specification that runs. Faster forms are held equal
// to them by tests. Rules in docs/spec/chunking.md.
//
// Both share a table that is affine over GF(2): nine words in place of 256. A byte's value is then
// two lookups of a nibble, or one matrix product, in vector registers of any kind, where a table of
// 256 random words fits the registers of few. The hash is a sum with carries all the same; chunk
// sizes and savings are those of random tables (kernels/vector/HASHES.md).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/profile.h"

namespace kerf {

// The values of the eight bits of a byte, then what every byte's value has besides. Of the high
// halves of SplitMix64's outputs with seed 0, in order, the constant first, those with which no
// run of one byte hashes to less than 2^8 in 16 bits, however short: what follows the start of a
// chunk counts as much as a full window.
inline constexpr std::array<std::uint32_t, 9> kGearWords = {0x6e789e6a, 0x06c45d18, 0xf88bb8a8,
                                                            0x1b39896a, 0x53cb9f0c, 0x657eecdd,
                                                            0x6a27ff80, 0x120f608c, 0xe220a839};

constexpr std::array<std::uint32_t, 256> MakeGearTable() {
  std::array<std::uint32_t, 256> table{};
  table[0] = kGearWords[8];
  for (std::size_t byte = 1; byte < table.size(); ++byte) {
    // Less its lowest one bit.
    table[byte] =
        table[byte & (byte - 1)] ^ kGearWords[static_cast<std::size_t>(std::countr_zero(byte))];
  }
  return table;
}
inline constexpr std::array<std::uint32_t, 256> kGearTable = MakeGearTable();

// Gear hashes below this make a cut: those of 16 bits whose highest log2(avg) bits are zero.
constexpr std::uint32_t GearBound(std::uint32_t avg_bytes) { return 0x10000 / avg_bytes; }

// What a MaxCDC hash sees.
inline constexpr std::size_t kMaxCdcWindowBytes = 32;
static_assert(kMaxCdcWindowBytes <= kHashWindowBytes);

// Both as Chunker::NextCut; `profile` is valid and of the function's algorithm. Pure.
std::size_t GearNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);
std::size_t MaxCdcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

}  // namespace kerf
