// What mincdc and maxcdc compare: a number for every position, of which the smallest ends a chunk.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// A hash says, as a plain value:
//   struct Tables {...};   // what a block keeps of it in shared memory; loaded by all its threads
//   void Load(Tables& tables, unsigned thread, unsigned thread_count) const;
//   // The numbers of the positions [block, block + 16); `block` is a multiple of 16, at least 32.
//   void Sixteen(const std::uint8_t* bytes, const Tables& tables, std::uint32_t block,
//                std::uint32_t (&values)[16]) const;
// The number of a position is made of the bytes up to it: a chunk that ends behind them has it.

// mincdc: the four bytes in front of the end, read little-endian, through a linear permutation.
struct MinCdcHashes {
  std::uint32_t multiplier;
  std::uint32_t addend;

  struct Tables {};

  KERF_DEVICE_CODE void Load(Tables&, unsigned, unsigned) const {}

  KERF_DEVICE_CODE void Sixteen(const std::uint8_t* bytes, const Tables&, std::uint32_t block,
                                std::uint32_t (&values)[16]) const {
    const Vector16 vector = LoadReadOnly16(bytes + block);
    std::uint32_t low = LoadReadOnly16(bytes + block - 16).words[3];
    KERF_UNROLL
    for (unsigned index = 0; index < 16; ++index) {
      const std::uint32_t high = vector.words[index / 4];
      const std::uint32_t word =
          index % 4 == 3 ? high : FunnelShiftRight(low, high, 8 * (index % 4 + 1));
      values[index] = multiplier * word + addend;
      if (index % 4 == 3) low = high;
    }
  }
};

// maxcdc: all bits of the gear hash, which makes the largest the smallest.
struct MaxCdcHashes {
  // 256 values in device memory.
  const std::uint32_t* table;

  struct Tables {
    std::uint32_t gear[256];
  };

  KERF_DEVICE_CODE void Load(Tables& tables, unsigned thread, unsigned thread_count) const {
    for (unsigned index = thread; index < 256; index += thread_count) {
      tables.gear[index] = table[index];
    }
  }

  KERF_DEVICE_CODE void Sixteen(const std::uint8_t* bytes, const Tables& tables,
                                std::uint32_t block, std::uint32_t (&values)[16]) const {
    std::uint32_t hash = 0;
    // Bytes older than 32 are shifted out.
    KERF_UNROLL
    for (unsigned part = 0; part < 3; ++part) {
      const Vector16 vector = LoadReadOnly16(bytes + block - 32 + 16 * part);
      KERF_UNROLL
      for (unsigned index = 0; index < 16; ++index) {
        hash = (hash << 1) + tables.gear[vector.words[index / 4] >> (8 * (index % 4)) & 0xFF];
        if (part == 2) values[index] = ~hash;
      }
    }
  }
};

}  // namespace kerf::cuda
