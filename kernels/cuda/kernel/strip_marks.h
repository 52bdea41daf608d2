// K1: marks every position of a batch at which a chunk could end, as stage 1 of two-stage chunking
// does (kernels/twostage/mark.h). The buffer is marked as one stream: see Segment in batch.h.
//
// A thread rolls the rule's hash over a strip of the buffer, behind a halo in front of it that
// fills the window and is not tested, and keeps 128 positions of marks in registers until it stores
// them. A rule is
//
//   class Rule {
//     struct Args {...};    // a plain value
//     struct Shared {...};  // its tables
//     // Whether there are strict marks; if not, all marks count as both.
//     static constexpr bool kHasStrict;
//     // Where the byte that falls out of the window lies; 0: the rule need not know it.
//     static constexpr std::uint32_t kLeavingBytes;
//
//     static void Begin(const Args&, Shared&, unsigned thread, unsigned thread_count);
//     // The size of the halo.
//     static std::uint32_t HaloBytes(const Args&);
//
//     // A hash of nothing, for a thread of this lane of its warp.
//     Rule(const Shared&, unsigned lane);
//     void Slide(std::uint32_t arriving_byte, std::uint32_t leaving_byte);
//     bool IsLoose(const Args&) const;
//     bool IsStrict(const Args&) const;  // of a loose one, where kHasStrict
//   };
//
// All functions are KERF_DEVICE_CODE, both sizes multiples of 16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/portable.h"

namespace kerf::cuda {

// Strips are multiples of it.
inline constexpr std::uint32_t kStripAlignmentBytes = 128;
static_assert(kBatchAlignmentBytes % kStripAlignmentBytes == 0);
inline constexpr std::uint32_t kMaxStripBytes = 1 << 20;

template <class Rule, unsigned kThreads = 512>
struct StripMarks {
  struct Args {
    const std::uint8_t* bytes;
    // In device memory: of the batch, a multiple of kBatchAlignmentBytes, at most kMaxBatchBytes.
    const std::uint32_t* size_bytes;
    // Bit p mod 32 of word p / 32 is position p; as many words as that takes, at a multiple of 16.
    // `strict` is not looked at where the rule has no such marks.
    std::uint32_t* loose;
    std::uint32_t* strict;
    // For a thread at a time; at most kMaxStripBytes. Long ones have less halo, short ones more
    // threads at work.
    std::uint32_t strip_bytes;
    typename Rule::Args rule;
  };
  struct Shared {
    typename Rule::Shared rule;
  };
  struct Local {};
  static constexpr unsigned kBlockThreads = kThreads;
  static constexpr int kPhaseCount = 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    const std::uint32_t tile_bytes = args.strip_bytes * kBlockThreads;
    return (*args.size_bytes + tile_bytes - 1) / tile_bytes;
  }

  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread) {
    Rule::Begin(args.rule, shared.rule, thread, kBlockThreads);
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t size_bytes = *args.size_bytes;
    const std::uint32_t start = (tile * kBlockThreads + thread) * args.strip_bytes;
    if (start >= size_bytes) return;
    const std::uint32_t end = Min(start + args.strip_bytes, size_bytes);
    Rule rule(shared.rule, thread % 32);
    for (std::uint32_t place = start - Min(start, Rule::HaloBytes(args.rule)); place < start;
         place += sizeof(Vector16)) {
      RollHalo(rule, LoadReadOnly16(args.bytes + place));
    }
    for (std::uint32_t place = start; place < end; place += 128) {
      Vector16 loose;
      Vector16 strict;
      KERF_UNROLL
      for (unsigned index = 0; index < 4; ++index) {
        MarkWord(args, rule, place + 32 * index, loose.words[index], strict.words[index]);
      }
      Store16(args.loose + place / 32, loose);
      if constexpr (Rule::kHasStrict) Store16(args.strict + place / 32, strict);
    }
  }

 private:
  KERF_DEVICE_CODE static void RollHalo(Rule& rule, const Vector16& arriving) {
    KERF_UNROLL
    for (unsigned byte = 0; byte < sizeof(Vector16); ++byte) rule.Slide(ByteOf(arriving, byte), 0);
  }

  // Of 32 positions.
  KERF_DEVICE_CODE static void MarkWord(const Args& args, Rule& rule, std::uint32_t place,
                                        std::uint32_t& loose, std::uint32_t& strict) {
    constexpr unsigned kVectors = 32 / sizeof(Vector16);
    Vector16 arriving[kVectors];
    Vector16 leaving[kVectors] = {};
    KERF_UNROLL
    for (unsigned vector = 0; vector < kVectors; ++vector) {
      arriving[vector] = LoadReadOnly16(args.bytes + place + sizeof(Vector16) * vector);
    }
    if constexpr (Rule::kLeavingBytes > 0) {
      KERF_UNROLL
      for (unsigned vector = 0; vector < kVectors; ++vector) {
        const std::uint32_t from = place + static_cast<std::uint32_t>(sizeof(Vector16)) * vector;
        // What lies in front of the buffer counts nothing.
        if (from < Rule::kLeavingBytes) continue;
        leaving[vector] = LoadReadOnly16(args.bytes + from - Rule::kLeavingBytes);
      }
    }
    loose = strict = 0;
    KERF_UNROLL
    for (unsigned byte = 0; byte < 32; ++byte) {
      rule.Slide(ByteOf(arriving[byte / 16], byte % 16), ByteOf(leaving[byte / 16], byte % 16));
      if (rule.IsLoose(args.rule)) {
        loose |= std::uint32_t{1} << byte;
        if constexpr (Rule::kHasStrict) {
          if (rule.IsStrict(args.rule)) strict |= std::uint32_t{1} << byte;
        }
      }
    }
  }

  KERF_DEVICE_CODE static std::uint32_t ByteOf(const Vector16& vector, unsigned index) {
    return vector.words[index / 4] >> (8 * (index % 4)) & 0xFF;
  }
};

}  // namespace kerf::cuda
