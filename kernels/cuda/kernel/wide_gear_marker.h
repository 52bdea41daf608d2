// What K1 marks of a gear rule of 64 bits, the plain way, for tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/kernel/wide_gear.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {

// Both vectors are the marks.
class WideGearMarker final : public Marker {
 public:
  explicit WideGearMarker(const WideGearRule& rule) : rule_(rule) {}

  void Mark(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to,
            const MarkWords& marks) const override {
    // The highest 32 of the bits that decide.
    const std::size_t low_bits = rule_.window_bytes - std::min<std::size_t>(rule_.window_bytes, 32);
    const std::uint64_t mask = rule_.strict_mask & rule_.loose_mask & ~std::uint64_t{0} << low_bits;
    std::uint64_t hash = 0;
    const auto roll = [&](std::size_t position) {
      hash = (hash << 1) + rule_.table[bytes[position]];
    };
    for (std::size_t position = from - std::min<std::size_t>(from, 64); position < from;
         ++position) {
      roll(position);
    }
    for (std::size_t start = from; start < to; start += kWordPositions) {
      std::uint64_t word = 0;
      for (std::size_t bit = 0; bit < std::min(kWordPositions, to - start); ++bit) {
        roll(start + bit);
        word |= std::uint64_t{(hash & mask) == 0} << bit;
      }
      const std::size_t index = start / kWordPositions % marks.loose.size();
      marks.loose[index] = word;
      marks.strict[index] = word;
    }
  }

 private:
  const WideGearRule rule_;
};

}  // namespace kerf::cuda
