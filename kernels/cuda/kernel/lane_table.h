// Tables of 256 words in shared memory, once for each of the lanes that are served together, in
// banks of their own, so that no lookup waits for another lane's, whatever the bytes are.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// What all banks give at once: words of 4 bytes for 32 lanes, words of 8 for 16, the other half of
// the warp being served behind them.
inline constexpr unsigned kBankBytes = 128;

// A row for each byte: the word of each table, for each column. Rows are of 256 bytes, since then
// the place of a word in them is one permutation of bytes; where the words of a column take less
// than they need there are columns for twice as many threads.
template <class Word, unsigned kTables = 1>
struct LaneTable {
  static constexpr unsigned kRowBytes = 256;
  static constexpr unsigned kColumns = kRowBytes / sizeof(Word) / kTables;
  static_assert(kColumns * kTables * sizeof(Word) == kRowBytes &&
                kColumns * sizeof(Word) % kBankBytes == 0);

  Word words[256 * kTables * kColumns];

  // A thread's part; `value_of(table, byte)` for every byte.
  template <class ValueOf>
  KERF_DEVICE_CODE void Fill(unsigned thread, unsigned thread_count, ValueOf value_of) {
    for (unsigned index = thread; index < 256 * kTables * kColumns; index += thread_count) {
      words[index] = value_of(index / kColumns % kTables, index / kColumns / kTables);
    }
  }
};

// One thread's.
template <class Word, unsigned kTables = 1>
class LaneColumn {
 public:
  KERF_DEVICE_CODE LaneColumn(const LaneTable<Word, kTables>& table, unsigned thread)
      : table_(reinterpret_cast<const char*>(table.words)),
        column_bytes_(thread % kColumns * static_cast<std::uint32_t>(sizeof(Word))) {}

  // What a table has for byte `index` of `bytes`, which is a constant where this is inlined.
  template <unsigned kTable = 0>
  KERF_DEVICE_CODE Word At(std::uint32_t bytes, unsigned index) const {
    static_assert(kTable < kTables);
    // In bytes, since nvcc makes two instructions more of an index of words: the byte above the
    // column's.
    const std::uint32_t offset = PermuteBytes(bytes, column_bytes_, 0x5504 | index << 4);
    return *reinterpret_cast<const Word*>(table_ + offset + kTable * kColumns * sizeof(Word));
  }

 private:
  static constexpr unsigned kColumns = LaneTable<Word, kTables>::kColumns;

  const char* table_;
  std::uint32_t column_bytes_;
};

}  // namespace kerf::cuda
