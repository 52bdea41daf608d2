// Where mincdc and maxcdc have marks, by what is said of them in extreme_marks.h, a position at a
// time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/kernel/cut_rule_of.h"
#include "kernels/cuda/kernel/emulated_selection.h"
#include "kernels/reference/gear.h"
#include "kernels/reference/rules.h"

namespace kerf::cuda {

// By position; nothing of the first ones.
inline std::vector<std::uint32_t> MinCdcNumbers(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint32_t> numbers(bytes.size());
  for (std::size_t position = 3; position < bytes.size(); ++position) {
    std::uint32_t word = 0;
    for (std::size_t index = 0; index < 4; ++index) {
      word |= std::uint32_t{bytes[position - 3 + index]} << (8 * index);
    }
    numbers[position] = word * kMinCdcMultiplier + kMinCdcAddend;
  }
  return numbers;
}

inline std::vector<std::uint32_t> MaxCdcNumbers(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint32_t> numbers;
  std::uint32_t sum = 0;
  for (const std::uint8_t byte : bytes) {
    sum = (sum << 1) + kGearTable[byte];
    numbers.push_back(~sum);
  }
  return numbers;
}

// Makes `number` that of mincdc at `position`: the odd multiplier has an inverse.
inline void PutMinCdcNumber(std::span<std::uint8_t> bytes, std::size_t position,
                            std::uint32_t number) {
  std::uint32_t inverse = 1;
  for (int step = 0; step < 5; ++step) inverse *= 2 - kMinCdcMultiplier * inverse;
  const std::uint32_t word = (number - kMinCdcAddend) * inverse;
  for (std::size_t index = 0; index < 4; ++index) {
    bytes[position - 3 + index] = static_cast<std::uint8_t>(word >> (8 * index));
  }
}

inline std::vector<std::uint32_t> PositionsToMark(const std::vector<std::uint32_t>& numbers,
                                                  const ExtremeSetting& setting,
                                                  const Batch& batch) {
  constexpr std::size_t kGroup = kGroupPositions;
  constexpr std::uint32_t kGreatest = 0xFFFFFFFF;
  std::vector<std::uint32_t> marked;
  for (const Piece& piece : batch.pieces) {
    const std::size_t from = piece.offset + setting.min_bytes - 1;
    const std::size_t to = piece.offset + piece.size_bytes;
    // Whether a position of the piece's windows, of those of [first, last), has less than `number`.
    const auto has_less = [&](std::size_t first, std::size_t last, std::uint64_t number) {
      for (std::size_t position = std::max(first, from); position < std::min(last, to);
           ++position) {
        if (numbers[position] < number) return true;
      }
      return false;
    };
    // What lies in front of the batch counts nothing.
    const auto before = [](std::size_t position, std::size_t groups) {
      return position - std::min(position, groups * kGroup);
    };
    for (std::size_t position = from; position < to; ++position) {
      const std::uint64_t number = numbers[position];
      // Nothing is less because of it.
      if (number == kGreatest) continue;
      const std::size_t group = position / kGroup * kGroup;
      if (has_less(before(group, setting.reach.lead_groups), position, number + 1)) continue;
      const std::size_t end = group + (1 + setting.reach.side_groups) * kGroup;
      if (!has_less(before(group, setting.reach.side_groups), position, number + 1) ||
          !has_less(position + 1, end, number)) {
        marked.push_back(static_cast<std::uint32_t>(position));
      }
    }
  }
  return marked;
}

inline std::vector<std::uint32_t> MarkedPositions(const BatchMarks& marks, const Batch& batch) {
  std::vector<std::uint32_t> marked;
  for (std::uint32_t position = 0; position < batch.bytes.size(); ++position) {
    if ((marks[position / 32] >> position % 32 & 1) != 0) marked.push_back(position);
  }
  return marked;
}

}  // namespace kerf::cuda
