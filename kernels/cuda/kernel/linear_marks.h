// K1 of crc and rabin: hashes of a window that are linear, so that a byte that leaves it is taken
// out with one lookup, of which the chain of lookups from byte to byte has no need to wait.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/lane_table.h"
#include "kernels/cuda/kernel/strip_marks.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// A linear function of a byte, by what it makes of each bit.
template <class Word>
struct LinearTable {
  Word of_bit[8];

  KERF_DEVICE_CODE Word Of(unsigned byte) const {
    Word value = 0;
    for (unsigned bit = 0; bit < 8; ++bit) value ^= (byte >> bit & 1) != 0 ? of_bit[bit] : 0;
    return value;
  }
};

// The reflected CRC-32 of 256 bytes: marks where it has no bit of a mask.
class CrcHash {
 public:
  struct Args {
    LinearTable<std::uint32_t> arriving;
    // A byte's share of the hash that has slid past it.
    LinearTable<std::uint32_t> leaving;
    std::uint32_t mask;
  };
  using Shared = LaneTable<std::uint32_t, 2>;
  static constexpr std::uint32_t kLeavingBytes = 256;
  static constexpr std::uint32_t kFillingThreads = 132 * 1024;
  static constexpr std::uint32_t kMostStripBytes = 256;

  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread,
                                     unsigned thread_count) {
    shared.Fill(thread, thread_count, [&](unsigned table, unsigned byte) {
      return table == 0 ? args.arriving.Of(byte) : args.leaving.Of(byte);
    });
  }
  KERF_DEVICE_CODE static std::uint32_t HaloBytes(const Args&) { return kLeavingBytes; }

  KERF_DEVICE_CODE CrcHash(const Shared& shared, unsigned thread) : column_(shared, thread) {}

  // The word's four bytes are added at its first, which spares three extractions; those that have
  // not arrived yet are taken away from what is tested.
  template <bool kLeaves>
  KERF_DEVICE_CODE void Slide(std::uint32_t arriving, std::uint32_t leaving, unsigned index) {
    if (index == 0) digest_ ^= arriving;
    digest_ = column_.At<0>(digest_, 0) ^ digest_ >> 8;
    if constexpr (kLeaves) digest_ ^= column_.At<1>(leaving, index);
    early_ = index == 3 ? 0 : arriving >> (8 * index + 8);
  }
  KERF_DEVICE_CODE bool IsMarked(const Args& args) const {
    return ((digest_ ^ early_) & args.mask) == 0;
  }

 private:
  LaneColumn<std::uint32_t, 2> column_;
  std::uint32_t digest_ = 0;
  std::uint32_t early_ = 0;
};

// Rabin's fingerprint of 48 bytes, of degree 53: marks where it has no bit of a mask. It is kept
// shifted left by 3, so that the eight bits to be reduced are a byte of a word.
class RabinHash {
 public:
  static constexpr int kShift = 3;
  struct Args {
    // Shifted: the residue of the eight bits above the degree, with these bits themselves, which it
    // thereby takes away.
    LinearTable<std::uint64_t> reduced;
    // Shifted: a byte's share of the hash that has slid past it.
    LinearTable<std::uint64_t> leaving;
    // Not shifted; of the low bits.
    std::uint32_t mask;
  };
  using Shared = LaneTable<std::uint64_t, 2>;
  static constexpr std::uint32_t kLeavingBytes = 48;
  static constexpr std::uint32_t kFillingThreads = 132 * 1024;
  static constexpr std::uint32_t kMostStripBytes = 512;

  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread,
                                     unsigned thread_count) {
    shared.Fill(thread, thread_count, [&](unsigned table, unsigned byte) {
      return table == 0 ? args.reduced.Of(byte) : args.leaving.Of(byte);
    });
  }
  KERF_DEVICE_CODE static std::uint32_t HaloBytes(const Args&) { return kLeavingBytes; }

  KERF_DEVICE_CODE RabinHash(const Shared& shared, unsigned thread) : column_(shared, thread) {}

  template <bool kLeaves>
  KERF_DEVICE_CODE void Slide(std::uint32_t arriving, std::uint32_t leaving, unsigned index) {
    const std::uint32_t byte = arriving >> (8 * index) & 0xFF;
    digest_ =
        digest_ << 8 ^ byte << kShift ^ column_.At<0>(static_cast<std::uint32_t>(digest_ >> 32), 2);
    if constexpr (kLeaves) digest_ ^= column_.At<1>(leaving, index);
  }
  KERF_DEVICE_CODE bool IsMarked(const Args& args) const {
    return (static_cast<std::uint32_t>(digest_) & args.mask << kShift) == 0;
  }

 private:
  LaneColumn<std::uint64_t, 2> column_;
  std::uint64_t digest_ = 0;
};

using CrcMarks = StripMarks<CrcHash, 512>;
// Its registers leave room for one block on a multiprocessor.
using RabinMarks = StripMarks<RabinHash, 1024>;

}  // namespace kerf::cuda
