// K1: marks every position of a batch at which a chunk could end, as stage 1 of two-stage chunking
// does (kernels/twostage/mark.h). The buffer is marked as one stream: see Piece in batch.h.
//
// A thread rolls the rule's hash over a strip of the buffer, behind a halo in front of it that
// fills the window and is not tested, and keeps 128 positions of marks in registers until it stores
// them. A rule is
//
//   class Rule {
//     struct Args {...};    // a plain value
//     struct Shared {...};  // its tables
//     // Where the byte that falls out of the window lies; 0: the rule need not know it.
//     static constexpr std::uint32_t kLeavingBytes;
//     // As many threads as fill a large GPU, and the longest strip that each is given then.
//     static constexpr std::uint32_t kFillingThreads;
//     static constexpr std::uint32_t kMostStripBytes;
//
//     static void Begin(const Args&, Shared&, unsigned thread, unsigned thread_count);
//     // The size of the halo.
//     static std::uint32_t HaloBytes(const Args&);
//
//     // A hash of nothing, for this thread of the block.
//     Rule(const Shared&, unsigned thread);
//     // Byte `index` of a word arrives, and, if kLeaves, that of another word leaves; a word's
//     bytes
//     // in order.
//     template <bool kLeaves>
//     void Slide(std::uint32_t arriving, std::uint32_t leaving, unsigned index);
//     bool IsMarked(const Args&) const;
//   };
//
// All functions are KERF_DEVICE_CODE, both sizes multiples of 16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// Strips are multiples of it.
inline constexpr std::uint32_t kStripAlignmentBytes = 128;
static_assert(kBatchAlignmentBytes % kStripAlignmentBytes == 0);
inline constexpr std::uint32_t kMaxStripBytes = 1 << 20;

template <class Rule, unsigned kThreads>
struct StripMarks {
  struct Args {
    const std::uint8_t* bytes;
    // In device memory: of the batch, a multiple of kBatchAlignmentBytes, at most kMaxBatchBytes.
    const std::uint32_t* size_bytes;
    // Bit p mod 32 of word p / 32 is position p; as many words as that takes, at a multiple of 16.
    std::uint32_t* marks;
    // For a thread at a time, a multiple of kStripAlignmentBytes, at most kMaxStripBytes; 0: as
    // the size of the batch has it. Long ones have less halo, short ones more threads at work.
    std::uint32_t strip_bytes;
    typename Rule::Args rule;
  };
  struct Shared {
    typename Rule::Shared rule;
  };
  struct Local {};
  static constexpr unsigned kBlockThreads = kThreads;
  static constexpr int kPhaseCount = 1;

  // Of a batch of so many bytes: the shortest with which kFillingThreads have done at once.
  KERF_DEVICE_CODE static std::uint32_t StripBytesOf(std::uint32_t size_bytes) {
    constexpr std::uint32_t kOnceBytes = Rule::kFillingThreads * kStripAlignmentBytes;
    static_assert(Rule::kMostStripBytes % kStripAlignmentBytes == 0);
    const std::uint32_t units = size_bytes / kOnceBytes + (size_bytes % kOnceBytes != 0 ? 1 : 0);
    return Min(Max(units, 1) * kStripAlignmentBytes, Rule::kMostStripBytes);
  }

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    const std::uint32_t tile_bytes = StripBytes(args) * kBlockThreads;
    return (*args.size_bytes + tile_bytes - 1) / tile_bytes;
  }

  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread) {
    Rule::Begin(args.rule, shared.rule, thread, kBlockThreads);
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t size_bytes = *args.size_bytes;
    const std::uint32_t strip_bytes = StripBytes(args);
    const std::uint32_t start = (tile * kBlockThreads + thread) * strip_bytes;
    if (start >= size_bytes) return;
    const std::uint32_t end = Min(start + strip_bytes, size_bytes);
    Rule rule(shared.rule, thread);
    // What leaves the window, where that is near, then what arrives.
    Vector16 window[kQueued + kUnitVectors] = {};
    for (std::uint32_t place = start - Min(start, Rule::HaloBytes(args.rule)); place < start;
         place += sizeof(Vector16)) {
      const Vector16 arriving = LoadInOrder16(args.bytes + place);
      KERF_UNROLL
      for (unsigned byte = 0; byte < sizeof(Vector16); ++byte) {
        rule.template Slide<false>(arriving.words[byte / 4], 0, byte % 4);
      }
      if constexpr (kQueued > 0) {
        KERF_UNROLL
        for (unsigned index = 1; index < kQueued; ++index) window[index - 1] = window[index];
        window[kQueued - 1] = arriving;
      }
    }
    std::uint32_t place = start;
    if constexpr (kQueued == 0 && Rule::kLeavingBytes > 0) {
      // What would lie in front of the buffer counts nothing.
      for (; place < Min(end, Rule::kLeavingBytes); place += kUnitBytes) {
        MarkUnit<false>(args, rule, place, window);
      }
    }
    for (; place < end; place += kUnitBytes) {
      MarkUnit<(Rule::kLeavingBytes > 0)>(args, rule, place, window);
      if constexpr (kQueued > 0) {
        KERF_UNROLL
        for (unsigned index = 0; index < kQueued; ++index) {
          window[index] = window[kUnitVectors + index];
        }
      }
    }
  }

 private:
  // Whose marks are a vector.
  static constexpr std::uint32_t kUnitBytes = 128;
  static constexpr unsigned kUnitVectors = kUnitBytes / sizeof(Vector16);
  static_assert(kStripAlignmentBytes % kUnitBytes == 0);
  // Vectors that stay in registers until they leave the window. More are loaded a second time.
  static constexpr unsigned kQueued =
      Rule::kLeavingBytes <= 64 ? Rule::kLeavingBytes / sizeof(Vector16) : 0;
  static_assert(kQueued <= kUnitVectors && (kQueued > 0 || Rule::kLeavingBytes % kUnitBytes == 0));

  KERF_DEVICE_CODE static std::uint32_t StripBytes(const Args& args) {
    return args.strip_bytes != 0 ? args.strip_bytes : StripBytesOf(*args.size_bytes);
  }

  // kDoLeave: bytes leave the window.
  template <bool kDoLeave>
  KERF_DEVICE_CODE static void MarkUnit(const Args& args, Rule& rule, std::uint32_t place,
                                        Vector16 (&window)[kQueued + kUnitVectors]) {
    const std::uint8_t* const unit = args.bytes + place;
    Vector16 marks = {};
    KERF_UNROLL
    for (unsigned vector = 0; vector < kUnitVectors; ++vector) {
      window[kQueued + vector] = LoadInOrder16(unit + sizeof(Vector16) * vector);
      Vector16 leaving = {};
      if constexpr (kDoLeave && kQueued > 0) {
        leaving = window[vector];
      } else if constexpr (kDoLeave) {
        leaving = LoadInOrder16(unit - Rule::kLeavingBytes + sizeof(Vector16) * vector);
      }
      MarkVector<kDoLeave>(args, rule, window[kQueued + vector], leaving,
                           vector % 2 * sizeof(Vector16), marks.words[vector / 2]);
    }
    Store16(args.marks + place / 32, marks);
  }

  // Into the bits from `first` of the word.
  template <bool kDoLeave>
  KERF_DEVICE_CODE static void MarkVector(const Args& args, Rule& rule, const Vector16& arriving,
                                          const Vector16& leaving, unsigned first,
                                          std::uint32_t& marks) {
    KERF_UNROLL
    for (unsigned byte = 0; byte < sizeof(Vector16); ++byte) {
      rule.template Slide<kDoLeave>(arriving.words[byte / 4], leaving.words[byte / 4], byte % 4);
      if (rule.IsMarked(args.rule)) marks |= std::uint32_t{1} << (first + byte);
    }
  }
};

}  // namespace kerf::cuda
