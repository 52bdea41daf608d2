// The rules of kernels/twostage, and wide_gear.h, as K1 takes them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/kernel/gear_marks.h"
#include "kernels/cuda/kernel/linear_marks.h"
#include "kernels/cuda/kernel/wide_gear.h"
#include "kernels/profile.h"
#include "kernels/reference/crc.h"
#include "kernels/reference/rabin.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {

inline GearHash<std::uint32_t>::Args GearHashArgs(const GearRule& rule) {
  GearHash<std::uint32_t>::Args args;
  std::copy(rule.table.begin(), rule.table.end(), args.table);
  args.mask = rule.strict_mask & rule.loose_mask;
  args.window_bytes = static_cast<std::uint32_t>(rule.window_bytes);
  return args;
}

inline GearHash<std::uint64_t>::Args GearHashArgs(const WideGearRule& rule) {
  GearHash<std::uint64_t>::Args args;
  std::transform(rule.table.begin(), rule.table.end(), args.table,
                 [&](std::uint64_t value) { return value << rule.mark_shift(); });
  args.mask = rule.mark_mask();
  args.window_bytes = static_cast<std::uint32_t>(rule.window_bytes);
  return args;
}

// Of a profile of crc.
inline CrcHash::Args CrcHashArgs(const Profile& profile) {
  static_assert(CrcHash::kLeavingBytes == kCrcWindowBytes && kMaxCrcBits < 32);
  CrcHash::Args args;
  for (unsigned bit = 0; bit < 8; ++bit) {
    args.arriving.of_bit[bit] = CrcTable()[1u << bit];
    args.leaving.of_bit[bit] = CrcOutTable()[1u << bit];
  }
  args.mask = (1u << profile.mask_bits) - 1;
  return args;
}

// Of a profile of rabin.
inline RabinHash::Args RabinHashArgs(const Profile& profile) {
  static_assert(RabinHash::kLeavingBytes == kRabinWindowBytes);
  // The reduced byte is byte 2 of the high word; what is tested lies in the low one.
  static_assert(kRabinDegree - 8 + RabinHash::kShift == 32 + 16);
  static_assert((std::uint64_t{kMaxAvgBytes - 1} << RabinHash::kShift) >> 32 == 0);
  RabinHash::Args args;
  for (unsigned bit = 0; bit < 8; ++bit) {
    const std::uint64_t byte = 1u << bit;
    args.reduced.of_bit[bit] = (RabinResidue(byte, kRabinDegree) | byte << kRabinDegree)
                               << RabinHash::kShift;
    args.leaving.of_bit[bit] = RabinResidue(byte, 8 * kRabinWindowBytes) << RabinHash::kShift;
  }
  args.mask = profile.avg_bytes - 1;
  return args;
}

}  // namespace kerf::cuda
