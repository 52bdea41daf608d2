// The gear rule whose hash has 64 bits, fastcdc2020's, as the kernels see it. On the CPU it has no
// two stages (kernels/twostage): there the sequential rule is the faster one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/profile.h"

namespace kerf::cuda {

// h = 2 h + table[b] mod 2^64, a cut where h has no bit of a mask. A plain value.
struct WideGearRule {
  std::array<std::uint64_t, 256> table;
  // Before avg_bytes of a chunk, and behind. Neither needs to have the other's bits.
  std::uint64_t strict_mask;
  std::uint64_t loose_mask;
  // Bytes that decide: the number of the highest bit of a mask, counted from 1.
  std::size_t window_bytes;
  std::size_t min_bytes;
  std::size_t avg_bytes;
  std::size_t max_bytes;
  // The rule tests so many bytes at a time, and none at a chunk's end that are fewer; a power of
  // two.
  std::size_t step_bytes;

  // How far the table is shifted for K1, so that all highest bits of the masks are the word's.
  unsigned mark_shift() const { return static_cast<unsigned>(64 - window_bytes); }
  // What K1 tests of the highest 32 bits of a shifted hash: what both masks ask for there.
  std::uint32_t mark_mask() const {
    return static_cast<std::uint32_t>((strict_mask & loose_mask) << mark_shift() >> 32);
  }
};

// fastcdc2020; none for other algorithms.
std::optional<WideGearRule> WideGearRuleOf(const Profile& profile);

}  // namespace kerf::cuda
