// FastCDC (Xia et al., "The Design of Fast Content-Defined Chunking for Data Deduplication Based
// Storage Systems", TPDS 2020, algorithm 1) with kerf's gear table and masks, in its plainest form:
// the specification that runs. Faster forms are held equal to it by tests. Rules in
// docs/spec/chunking.md.
//
// kerf's hash has 32 bits where the paper's has 64: every mask lies in them, so that sixteen
// positions fit one 512-bit register.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/profile.h"

namespace kerf {

// The length of the chunk that begins at bytes[0]; `bytes` as for Chunker::NextCut, `profile` valid
// and of this algorithm. Pure.
std::size_t FastCdcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

// The high halves of the first 256 outputs of SplitMix64 with this seed: the smallest one for which
// no run of one byte, however long, satisfies a mask once it has filled the window.
inline constexpr std::uint64_t kFastCdcGearSeed = 1595;

std::array<std::uint32_t, 256> MakeFastCdcGear(std::uint64_t seed);
std::span<const std::uint32_t, 256> FastCdcGear();

// The mask with `bits` one bits: bit 31 - (7 k mod 24) for k = 0 .. bits - 1, which spreads them
// over bits 8..31 (7 and 24 share no factor). A mask holds every one bit of a smaller mask.
constexpr std::uint32_t FastCdcMask(std::uint32_t bits) {
  std::uint32_t mask = 0;
  for (std::uint32_t k = 0; k < bits; ++k) mask |= std::uint32_t{1} << (31 - 7 * k % 24);
  return mask;
}

}  // namespace kerf
