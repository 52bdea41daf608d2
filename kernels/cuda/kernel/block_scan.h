// The sums in front of each thread of a block, in three steps with a barrier between them.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// Lies in a kernel's Shared; each step is called by all threads of the block, each in a phase of
// its own.
template <unsigned kThreads>
class BlockScan {
 public:
  KERF_DEVICE_CODE void Put(unsigned thread, std::uint32_t value) { values_[thread] = value; }

  KERF_DEVICE_CODE void SumGroups(unsigned thread) {
    if (thread >= kGroups) return;
    std::uint32_t sum = 0;
    for (unsigned index = thread * kGroupThreads; index < (thread + 1) * kGroupThreads; ++index) {
      const std::uint32_t value = values_[index];
      values_[index] = sum;
      sum += value;
    }
    group_sums_[thread] = sum;
  }

  // The sum of what the threads before this one have put.
  KERF_DEVICE_CODE std::uint32_t Before(unsigned thread) const {
    std::uint32_t sum = values_[thread];
    for (unsigned group = 0; group < thread / kGroupThreads; ++group) sum += group_sums_[group];
    return sum;
  }

 private:
  static constexpr unsigned kGroupThreads = 16;
  static constexpr unsigned kGroups = kThreads / kGroupThreads;
  static_assert(kThreads % kGroupThreads == 0);

  std::uint32_t values_[kThreads];
  std::uint32_t group_sums_[kGroups];
};

}  // namespace kerf::cuda
