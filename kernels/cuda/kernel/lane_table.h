// Tables of 256 words in shared memory, once for each lane of a warp in banks of its own, so that
// no lookup waits for another lane's, whatever the bytes are.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/portable.h"

namespace kerf::cuda {

inline constexpr unsigned kLanes = 32;

// A row for each byte: the word of each table, for each lane.
template <class Word, unsigned kTables = 1>
struct LaneTable {
  Word words[256 * kTables * kLanes];

  // A thread's part; `value_of(table, byte)` for every byte.
  template <class ValueOf>
  KERF_DEVICE_CODE void Fill(unsigned thread, unsigned thread_count, ValueOf value_of) {
    for (unsigned index = thread; index < 256 * kTables * kLanes; index += thread_count) {
      words[index] = value_of(index / kLanes % kTables, index / kLanes / kTables);
    }
  }
};

// One lane's.
template <class Word, unsigned kTables = 1>
class LaneColumn {
 public:
  KERF_DEVICE_CODE LaneColumn(const LaneTable<Word, kTables>& table, unsigned lane)
      : table_(reinterpret_cast<const char*>(table.words)),
        lane_bytes_(lane * static_cast<std::uint32_t>(sizeof(Word))) {}

  // What a table has for byte `index` of `bytes`, which is a constant where this is inlined.
  template <unsigned kTable = 0>
  KERF_DEVICE_CODE Word At(std::uint32_t bytes, unsigned index) const {
    constexpr std::uint32_t kTableBytes = kLanes * sizeof(Word);
    constexpr std::uint32_t kRowBytes = kTables * kTableBytes;
    static_assert(kTable < kTables && kRowBytes <= 256);
    // In bytes, since nvcc makes two instructions more of an index of words. In rows of 256 bytes
    // it is one permutation: the byte above the lane's.
    const std::uint32_t offset = kRowBytes == 256
                                     ? PermuteBytes(bytes, lane_bytes_, 0x5504 | index << 4)
                                     : (bytes >> (8 * index) & 0xFF) * kRowBytes + lane_bytes_;
    return *reinterpret_cast<const Word*>(table_ + offset + kTable * kTableBytes);
  }

 private:
  const char* table_;
  std::uint32_t lane_bytes_;
};

}  // namespace kerf::cuda
