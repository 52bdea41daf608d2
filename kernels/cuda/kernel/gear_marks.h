// K1 of gear and fastcdc, and of fastcdc2020, whose hash has 64 bits.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/lane_table.h"
#include "kernels/cuda/kernel/strip_marks.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// A gear hash whose highest 32 bits are tested: marks where they have no bit of a mask. Of a rule
// with two masks they are the bits that both have: which of the two has made a mark is found out
// where that is one in a thousand (classes.h).
template <class Word>
class GearHash {
 public:
  struct Args {
    // Shifted so far that what is tested is the highest of a word: sums of shifted values are
    // shifted sums.
    Word table[256];
    std::uint32_t mask;
    // A bit of the mask depends on so many bytes at most.
    std::uint32_t window_bytes;
  };
  using Shared = LaneTable<Word>;
  static constexpr std::uint32_t kLeavingBytes = 0;
  static constexpr std::uint32_t kFillingThreads = 132 * 2048;
  static constexpr std::uint32_t kMostStripBytes = sizeof(Word) == 8 ? 512 : 256;

  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread,
                                     unsigned thread_count) {
    shared.Fill(thread, thread_count, [&](unsigned, unsigned byte) { return args.table[byte]; });
  }

  // A position sees itself and the bytes before it, a window in all.
  KERF_DEVICE_CODE static std::uint32_t HaloBytes(const Args& args) {
    return (args.window_bytes - 1 + 15) / 16 * 16;
  }

  KERF_DEVICE_CODE GearHash(const Shared& shared, unsigned thread) : column_(shared, thread) {}

  template <bool kLeaves>
  KERF_DEVICE_CODE void Slide(std::uint32_t arriving, std::uint32_t, unsigned index) {
    hash_ = 2 * hash_ + column_.At(arriving, index);
  }
  KERF_DEVICE_CODE bool IsMarked(const Args& args) const {
    return (static_cast<std::uint32_t>(hash_ >> kTestedShift) & args.mask) == 0;
  }

 private:
  static constexpr unsigned kTestedShift = 8 * sizeof(Word) - 32;

  LaneColumn<Word> column_;
  Word hash_ = 0;
};

// Two of these blocks with their tables fill a multiprocessor with threads.
using GearMarks = StripMarks<GearHash<std::uint32_t>, 1024>;
using WideGearMarks = StripMarks<GearHash<std::uint64_t>, 1024>;

}  // namespace kerf::cuda
