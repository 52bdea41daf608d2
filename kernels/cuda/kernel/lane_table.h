// A table of 256 words in shared memory, once for each lane of a warp in banks of its own, so that
// no lookup waits for another lane's, whatever the bytes are.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/portable.h"

namespace kerf::cuda {

inline constexpr unsigned kLanes = 32;

template <class Word>
struct LaneTable {
  Word words[256 * kLanes];

  // A thread's part; `value_of(byte)` for every byte.
  template <class ValueOf>
  KERF_DEVICE_CODE void Fill(unsigned thread, unsigned thread_count, ValueOf value_of) {
    for (unsigned index = thread; index < 256 * kLanes; index += thread_count) {
      words[index] = value_of(index / kLanes);
    }
  }
};

// One lane's.
template <class Word>
class LaneColumn {
 public:
  KERF_DEVICE_CODE LaneColumn(const LaneTable<Word>& table, unsigned lane)
      : table_(reinterpret_cast<const char*>(table.words)),
        lane_bytes_(lane * static_cast<std::uint32_t>(sizeof(Word))) {}

  // In bytes: a shift, one operation of logic and the load, where nvcc makes five instructions of
  // words[byte * kLanes + lane].
  KERF_DEVICE_CODE Word operator[](std::uint32_t byte) const {
    constexpr std::uint32_t kRowBytes = kLanes * sizeof(Word);
    return *reinterpret_cast<const Word*>(table_ + (byte * kRowBytes + lane_bytes_));
  }

 private:
  const char* table_;
  std::uint32_t lane_bytes_;
};

}  // namespace kerf::cuda
