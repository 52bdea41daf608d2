// K1 of maxp-local: marks every byte that is greater than each of a window's on both sides, as
// kernels/twostage does. The buffer is marked as one stream: see Piece in batch.h.
//
// ByteMaxima first finds the greatest byte of every 32 and of every 1024; PeakMarks then asks of
// each 32 whether their greatest can be a peak. Most are answered by a neighbour, and what a window
// holds by a byte for each 1024 of it, whatever the input: a lone peak waits for some thousand
// loads if the window is the largest that a profile may have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// Bytes of a group: those of a word of marks.
inline constexpr std::uint32_t kGroupBytes = 32;
// Groups of a coarse one.
inline constexpr std::uint32_t kCoarseGroups = 32;
static_assert(kBatchAlignmentBytes % kGroupBytes == 0);

// The bytes of a group, in order.
struct GroupOfBytes {
  Vector16 vectors[kGroupBytes / sizeof(Vector16)];

  // `index` is a constant where this is inlined into an unrolled loop.
  KERF_DEVICE_CODE std::uint32_t Word(unsigned index) const {
    return vectors[index / 4].words[index % 4];
  }

  KERF_DEVICE_CODE std::uint32_t Greatest() const {
    std::uint32_t greatest = 0;
    KERF_UNROLL
    for (unsigned byte = 0; byte < 4; ++byte) {
      // Words with that byte on top: the greatest of them has the greatest byte.
      std::uint32_t words = 0;
      KERF_UNROLL
      for (unsigned index = 0; index < kGroupBytes / 4; ++index) {
        words = Max(words, Word(index) << (24 - 8 * byte));
      }
      greatest = Max(greatest, words >> 24);
    }
    return greatest;
  }
};

KERF_DEVICE_CODE GroupOfBytes LoadGroup(const std::uint8_t* bytes, std::uint32_t group) {
  bytes += std::size_t{group} * kGroupBytes;
  return {{LoadReadOnly16(bytes), LoadReadOnly16(bytes + sizeof(Vector16))}};
}

struct ByteMaxima {
  struct Args {
    const std::uint8_t* bytes;
    // In device memory: of the batch, a multiple of kBatchAlignmentBytes, at most kMaxBatchBytes.
    const std::uint32_t* size_bytes;
    // The greatest byte of each group, and of each kCoarseGroups of them, the last ones perhaps
    // fewer.
    std::uint8_t* fine;
    std::uint8_t* coarse;
  };
  static constexpr unsigned kBlockThreads = 512;
  struct Shared {
    // The tile's bytes of `fine`; 0 where there is no group.
    GroupOfBytes fine[kBlockThreads / kCoarseGroups];
  };
  struct Local {};
  static constexpr int kPhaseCount = 2;
  static_assert(kCoarseGroups == kGroupBytes && kBlockThreads % kCoarseGroups == 0);

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return (*args.size_bytes / kGroupBytes + kBlockThreads - 1) / kBlockThreads;
  }

  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t group_count = *args.size_bytes / kGroupBytes;
    if constexpr (kPhase == 0) {
      const std::uint32_t group = tile * kBlockThreads + thread;
      std::uint8_t greatest = 0;
      if (group < group_count) {
        greatest = static_cast<std::uint8_t>(LoadGroup(args.bytes, group).Greatest());
        args.fine[group] = greatest;
      }
      reinterpret_cast<std::uint8_t*>(shared.fine)[thread] = greatest;
    } else {
      if (thread >= kBlockThreads / kCoarseGroups) return;
      const std::uint32_t coarse = tile * (kBlockThreads / kCoarseGroups) + thread;
      if (coarse * kCoarseGroups >= group_count) return;
      args.coarse[coarse] = static_cast<std::uint8_t>(shared.fine[thread].Greatest());
    }
  }
};

struct PeakMarks {
  struct Args {
    // As ByteMaxima has left them.
    ByteMaxima::Args maxima;
    // Bit p mod 32 of word p / 32 is position p.
    std::uint32_t* marks;
    // At least 2 * kGroupBytes - 1, so that all of a group's neighbours are in all of its windows.
    std::uint32_t window_bytes;
  };
  struct Shared {};
  struct Local {};
  static constexpr unsigned kBlockThreads = 512;
  static constexpr int kPhaseCount = 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return (*args.maxima.size_bytes / kGroupBytes + kBlockThreads - 1) / kBlockThreads;
  }

  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared&, Local&, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t group = tile * kBlockThreads + thread;
    if (group < *args.maxima.size_bytes / kGroupBytes) args.marks[group] = MarksOf(args, group);
  }

 private:
  KERF_DEVICE_CODE static std::uint32_t MarksOf(const Args& args, std::uint32_t group) {
    const std::uint32_t size_bytes = *args.maxima.size_bytes;
    // Groups to each side that lie in the window of every byte of this one. Where there are fewer,
    // so are bytes in a window.
    const std::uint32_t near = (args.window_bytes - (kGroupBytes - 1)) / kGroupBytes;
    if (group < near || group + near >= size_bytes / kGroupBytes) return 0;
    const std::uint32_t greatest = args.maxima.fine[group];
    if (args.maxima.fine[group - 1] >= greatest || args.maxima.fine[group + 1] >= greatest)
      return 0;
    if (ReachesInGroups(args.maxima, greatest, group - near, group) ||
        ReachesInGroups(args.maxima, greatest, group + 1, group + near + 1)) {
      return 0;
    }
    const GroupOfBytes bytes = LoadGroup(args.maxima.bytes, group);
    std::uint32_t equal = 0;
    KERF_UNROLL
    for (unsigned index = 0; index < kGroupBytes; ++index) {
      const std::uint32_t byte = bytes.Word(index / 4) >> (8 * (index % 4)) & 0xFF;
      if (byte == greatest) equal |= std::uint32_t{1} << index;
    }
    const std::uint32_t place = group * kGroupBytes + LowestBit(equal);
    if (PopCount(equal) != 1 || place < args.window_bytes ||
        place + args.window_bytes >= size_bytes) {
      return 0;
    }
    // What the windows hold besides.
    const bool is_reached =
        ReachesInBytes(args.maxima.bytes, greatest, place - args.window_bytes,
                       (group - near) * kGroupBytes) ||
        ReachesInBytes(args.maxima.bytes, greatest, (group + near + 1) * kGroupBytes,
                       place + args.window_bytes + 1);
    return is_reached ? 0 : equal;
  }

  // Whether a byte of the groups [from, to) is `value` or more.
  KERF_DEVICE_CODE static bool ReachesInGroups(const ByteMaxima::Args& maxima, std::uint32_t value,
                                               std::uint32_t from, std::uint32_t to) {
    while (from < to) {
      const bool is_coarse = from % kCoarseGroups == 0 && from + kCoarseGroups <= to;
      if ((is_coarse ? maxima.coarse[from / kCoarseGroups] : maxima.fine[from]) >= value) {
        return true;
      }
      from += is_coarse ? kCoarseGroups : 1;
    }
    return false;
  }

  KERF_DEVICE_CODE static bool ReachesInBytes(const std::uint8_t* bytes, std::uint32_t value,
                                              std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t place = from; place < to; ++place) {
      if (bytes[place] >= value) return true;
    }
    return false;
  }
};

}  // namespace kerf::cuda
