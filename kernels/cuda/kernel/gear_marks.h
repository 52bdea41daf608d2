// K1 of gear and fastcdc.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/lane_table.h"
#include "kernels/cuda/kernel/portable.h"
#include "kernels/cuda/kernel/strip_marks.h"

namespace kerf::cuda {

// The hash of a GearRule (kernels/twostage/mark.h). `kTwoMasks`: they differ.
template <bool kTwoMasks>
class GearHash {
 public:
  struct Args {
    std::uint32_t table[256];
    std::uint32_t loose_mask;
    // Where the masks differ: has every bit of `loose_mask`.
    std::uint32_t strict_mask;
    // Of a GearRule: the number of the highest bit of a mask, counted from 1.
    std::uint32_t window_bytes;
  };
  using Shared = LaneTable<std::uint32_t>;
  static constexpr bool kHasStrict = kTwoMasks;
  static constexpr std::uint32_t kLeavingBytes = 0;

  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread,
                                     unsigned thread_count) {
    shared.Fill(thread, thread_count, [&](unsigned, unsigned byte) { return args.table[byte]; });
  }

  // A position sees itself and the bytes before it, a window in all.
  KERF_DEVICE_CODE static std::uint32_t HaloBytes(const Args& args) {
    return (args.window_bytes - 1 + 15) / 16 * 16;
  }

  KERF_DEVICE_CODE GearHash(const Shared& shared, unsigned lane) : column_(shared, lane) {}

  KERF_DEVICE_CODE void Slide(std::uint32_t arriving, std::uint32_t, unsigned index) {
    hash_ = 2 * hash_ + column_.At(arriving, index);
  }
  KERF_DEVICE_CODE bool IsLoose(const Args& args) const { return (hash_ & args.loose_mask) == 0; }
  KERF_DEVICE_CODE bool IsStrict(const Args& args) const { return (hash_ & args.strict_mask) == 0; }

 private:
  LaneColumn<std::uint32_t> column_;
  std::uint32_t hash_ = 0;
};

// One mask, as `gear` has: the marks are `loose`.
using GearMarks = StripMarks<GearHash<false>>;
using FastCdcMarks = StripMarks<GearHash<true>>;

}  // namespace kerf::cuda
