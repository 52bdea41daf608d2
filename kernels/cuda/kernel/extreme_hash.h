// What mincdc and maxcdc compare: a number for every position, of which the smallest ends a chunk.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/kernel/lane_table.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// A hash says, as a plain value:
//   struct Tables {...};       // what a block keeps of it in shared memory
//   struct LaneTables {...};   // the same for a block that asks for it at every position
//   // By all threads of a block together, in one phase.
//   void Load(Tables& tables, unsigned thread, unsigned thread_count) const;
//   void Load(LaneTables& tables, unsigned thread, unsigned thread_count) const;
//   // A thread's way to look things up, for the following.
//   auto LookupOf(const Tables& tables, unsigned thread) const;
//   auto LookupOf(const LaneTables& tables, unsigned thread) const;
//   // Goes over blocks of 16 positions, from `block`, which is a multiple of 16, at least 32:
//   // run.Next(values) has the numbers of the next one. For as long as its arguments live.
//   auto RunFrom(const std::uint8_t* bytes, const Lookup& lookup, std::uint32_t block) const;
//   // That of one position, at least 32.
//   std::uint32_t One(const std::uint8_t* bytes, const Lookup& lookup,
//                     std::uint32_t position) const;
//   // For the kernel that makes marks: threads of a block, blocks of a multiprocessor, and how
//   many
//   // groups of 16 positions a thread takes one behind the other, 1 to 8.
//   static constexpr unsigned kMarkThreads;
//   static constexpr unsigned kMarkBlocks;
//   static constexpr unsigned kRunGroups;
//   // Blocks whose bytes a thread loads at once where it looks for a chunk's end.
//   static constexpr unsigned kWalkBlocks;
//   // And so many candidates.
//   static constexpr unsigned kWalkCandidates;
// The number of a position is made of the bytes up to it: a chunk that ends behind them has it.

// Four bytes that no kernel of this launch writes. `address` is a multiple of 4.
KERF_DEVICE_CODE std::uint32_t LoadReadOnly4(const std::uint8_t* address) {
#if defined(__CUDA_ARCH__)
  return __ldg(reinterpret_cast<const unsigned*>(address));
#else
  std::uint32_t result;
  std::memcpy(&result, address, sizeof result);
  return result;
#endif
}

// Of two words that follow each other, the four bytes that end with the second one's byte `last`.
KERF_DEVICE_CODE std::uint32_t WordUpTo(std::uint32_t low, std::uint32_t high, unsigned last) {
  return PermuteBytes(low, high, 0x4321 + 0x1111 * last);
}

// mincdc: the four bytes in front of the end, read little-endian, through a linear permutation.
struct MinCdcHashes {
  std::uint32_t multiplier;
  std::uint32_t addend;

  struct Tables {};
  struct LaneTables {};
  struct Lookup {};
  static constexpr unsigned kMarkThreads = 256;
  static constexpr unsigned kMarkBlocks = 5;
  // Threads side by side load what lies side by side.
  static constexpr unsigned kRunGroups = 1;
  static constexpr unsigned kWalkBlocks = 5;
  static constexpr unsigned kWalkCandidates = 4;

  KERF_DEVICE_CODE void Load(Tables&, unsigned, unsigned) const {}
  KERF_DEVICE_CODE void Load(LaneTables&, unsigned, unsigned) const {}
  KERF_DEVICE_CODE Lookup LookupOf(const Tables&, unsigned) const { return {}; }
  KERF_DEVICE_CODE Lookup LookupOf(const LaneTables&, unsigned) const { return {}; }

  class Run {
   public:
    KERF_DEVICE_CODE Run(const MinCdcHashes& hash, const std::uint8_t* place)
        : hash_(hash), place_(place), before_(LoadReadOnly4(place - 4)) {}

    KERF_DEVICE_CODE void Next(std::uint32_t (&values)[16]) {
      const Vector16 vector = LoadReadOnly16(place_);
      place_ += sizeof vector;
      KERF_UNROLL
      for (unsigned index = 0; index < 16; ++index) {
        const std::uint32_t high = vector.words[index / 4];
        const std::uint32_t word =
            index % 4 == 3 ? high : FunnelShiftRight(before_, high, 8 * (index % 4 + 1));
        values[index] = hash_.multiplier * word + hash_.addend;
        if (index % 4 == 3) before_ = high;
      }
    }

   private:
    const MinCdcHashes& hash_;
    const std::uint8_t* place_;
    // The four bytes in front of the next position.
    std::uint32_t before_;
  };

  KERF_DEVICE_CODE Run RunFrom(const std::uint8_t* bytes, const Lookup&,
                               std::uint32_t block) const {
    return {*this, bytes + block};
  }

  KERF_DEVICE_CODE std::uint32_t One(const std::uint8_t* bytes, const Lookup&,
                                     std::uint32_t position) const {
    const std::uint8_t* const place = bytes + (position & ~3u);
    return multiplier * WordUpTo(LoadReadOnly4(place - 4), LoadReadOnly4(place), position % 4) +
           addend;
  }
};

// maxcdc: all bits of the gear hash, which makes the largest the smallest.
struct MaxCdcHashes {
  // 256 values in device memory.
  const std::uint32_t* table;

  struct Tables {
    std::uint32_t gear[256];
  };
  using LaneTables = LaneTable<std::uint32_t>;
  static constexpr unsigned kMarkThreads = 512;
  static constexpr unsigned kMarkBlocks = 2;
  // A run begins with the 32 bytes in front of it.
  static constexpr unsigned kRunGroups = 4;
  static constexpr unsigned kWalkBlocks = 3;
  static constexpr unsigned kWalkCandidates = 2;

  // In a table that is there once.
  class Lookup {
   public:
    KERF_DEVICE_CODE explicit Lookup(const Tables& tables) : gear_(tables.gear) {}
    KERF_DEVICE_CODE std::uint32_t At(std::uint32_t bytes, unsigned index) const {
      return gear_[bytes >> (8 * index) & 0xFF];
    }

   private:
    const std::uint32_t* gear_;
  };

  KERF_DEVICE_CODE void Load(Tables& tables, unsigned thread, unsigned thread_count) const {
    for (unsigned index = thread; index < 256; index += thread_count) {
      tables.gear[index] = table[index];
    }
  }
  KERF_DEVICE_CODE void Load(LaneTables& tables, unsigned thread, unsigned thread_count) const {
    tables.Fill(thread, thread_count, [this](unsigned, unsigned byte) { return table[byte]; });
  }
  KERF_DEVICE_CODE Lookup LookupOf(const Tables& tables, unsigned) const { return Lookup(tables); }
  KERF_DEVICE_CODE LaneColumn<std::uint32_t> LookupOf(const LaneTables& tables,
                                                      unsigned thread) const {
    return {tables, thread};
  }

  template <class AnyLookup>
  class Run {
   public:
    // Bytes older than 32 are shifted out.
    KERF_DEVICE_CODE Run(const AnyLookup& lookup, const std::uint8_t* place)
        : lookup_(lookup), place_(place - 32) {
      std::uint32_t ignored[16];
      Next(ignored);
      Next(ignored);
    }

    KERF_DEVICE_CODE void Next(std::uint32_t (&values)[16]) {
      const Vector16 vector = LoadInOrder16(place_);
      place_ += sizeof vector;
      KERF_UNROLL
      for (unsigned index = 0; index < 16; ++index) {
        sum_ = (sum_ << 1) + lookup_.At(vector.words[index / 4], index % 4);
        values[index] = ~sum_;
      }
    }

   private:
    const AnyLookup& lookup_;
    const std::uint8_t* place_;
    std::uint32_t sum_ = 0;
  };

  template <class AnyLookup>
  KERF_DEVICE_CODE Run<AnyLookup> RunFrom(const std::uint8_t* bytes, const AnyLookup& lookup,
                                          std::uint32_t block) const {
    return {lookup, bytes + block};
  }

  template <class AnyLookup>
  KERF_DEVICE_CODE std::uint32_t One(const std::uint8_t* bytes, const AnyLookup& lookup,
                                     std::uint32_t position) const {
    const std::uint8_t* const place = bytes + (position & ~3u);
    std::uint32_t before = LoadReadOnly4(place - 32);
    std::uint32_t sum = 0;
    KERF_UNROLL
    for (unsigned word = 0; word < 8; ++word) {
      const std::uint32_t next = LoadReadOnly4(place - 28 + 4 * word);
      const std::uint32_t four = WordUpTo(before, next, position % 4);
      KERF_UNROLL
      for (unsigned index = 0; index < 4; ++index) sum = (sum << 1) + lookup.At(four, index);
      before = next;
    }
    return ~sum;
  }
};

}  // namespace kerf::cuda
