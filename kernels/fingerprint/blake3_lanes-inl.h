// The lane engine, written once for every vector width with the compilers' vector extensions. The
// source file of one target includes it and is compiled with that target's flags. Nothing here may
// be shared between such files: everything has internal linkage, and no library code that could be
// emitted out of line is used, or a machine without the target might run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/fingerprint/blake3_constants.h"
#include "kernels/fingerprint/blake3_lanes.h"

#define KERF_INLINE __attribute__((always_inline)) inline
#define KERF_INLINE_LAMBDA __attribute__((always_inline))

namespace kerf::blake3 {
namespace {

// kLanes 32-bit words; one lane is a plain word.
template <int kLanes>
struct VectorOf {
  typedef std::uint32_t Type __attribute__((vector_size(4 * kLanes)));
};
template <>
struct VectorOf<1> {
  using Type = std::uint32_t;
};

template <int kCount, typename Vector>
KERF_INLINE void RotateRight(Vector& x) {
  x = (x >> kCount) | (x << (32 - kCount));
}

#if defined(__AVX2__) && !defined(__AVX512VL__)
// Without a vector rotate, one byte shuffle does the work of two shifts where whole bytes move.
using Bytes32 = std::uint8_t __attribute__((vector_size(32)));
template <>
KERF_INLINE void RotateRight<16>(VectorOf<8>::Type& x) {
  const Bytes32 bytes = reinterpret_cast<Bytes32>(x);
  x = reinterpret_cast<VectorOf<8>::Type>(
      __builtin_shufflevector(bytes, bytes, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13,
                              18, 19, 16, 17, 22, 23, 20, 21, 26, 27, 24, 25, 30, 31, 28, 29));
}
template <>
KERF_INLINE void RotateRight<8>(VectorOf<8>::Type& x) {
  const Bytes32 bytes = reinterpret_cast<Bytes32>(x);
  x = reinterpret_cast<VectorOf<8>::Type>(
      __builtin_shufflevector(bytes, bytes, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12,
                              17, 18, 19, 16, 21, 22, 23, 20, 25, 26, 27, 24, 29, 30, 31, 28));
}
#endif

// step(Constant<0>()), step(Constant<1>()), ...: the indices are constants so that the state lives
// in registers.
template <int kNumber>
struct Constant {
  static constexpr int kValue = kNumber;
};
template <int kCount, typename Step>
KERF_INLINE void Repeat(const Step& step) {
  if constexpr (kCount > 0) {
    Repeat<kCount - 1>(step);
    step(Constant<kCount - 1>());
  }
}

// How many columns of the state take each step together. A result takes several times as long as an
// instruction, so that one column after the other waits for itself most of the time; but without 32
// registers all four are too many.
#if defined(__AVX512VL__)
inline constexpr int kTogether = 4;
#else
inline constexpr int kTogether = 1;
#endif

// Half a round mixes the four columns of the state (kTurn 0) or its four diagonals (1), none of
// which waits for another, of all groups. A group is a register for each word, of as many lanes as
// it has.
template <int kRound, int kTurn, int kGroups, typename Vector>
KERF_INLINE void HalfRound(Vector (&s)[kGroups][16], const Vector (&m)[kGroups][16]) {
  constexpr const std::uint8_t(&w)[16] = kSchedule[kRound];
  Repeat<4 / kTogether>([&](auto part) KERF_INLINE_LAMBDA {
    constexpr int kFirst = decltype(part)::kValue * kTogether;
    // Calls step(a, b, c, d, x, y) with the words of each.
    const auto each = [&](const auto& step) KERF_INLINE_LAMBDA {
      Repeat<kTogether * kGroups>([&](auto number) KERF_INLINE_LAMBDA {
        constexpr int kGroup = decltype(number)::kValue / kTogether;
        constexpr int kColumn = kFirst + decltype(number)::kValue % kTogether;
        constexpr int kWord = 8 * kTurn + 2 * kColumn;
        auto& words = s[kGroup];
        step(words[kColumn], words[4 + (kColumn + kTurn) % 4], words[8 + (kColumn + 2 * kTurn) % 4],
             words[12 + (kColumn + 3 * kTurn) % 4], m[kGroup][w[kWord]], m[kGroup][w[kWord + 1]]);
      });
    };
    // The message first: it does not wait.
    each([](auto& a, auto&, auto&, auto&, auto& x, auto&) KERF_INLINE_LAMBDA { a += x; });
    each([](auto& a, auto& b, auto&, auto&, auto&, auto&) KERF_INLINE_LAMBDA { a += b; });
    each([](auto& a, auto&, auto&, auto& d, auto&, auto&) KERF_INLINE_LAMBDA { d ^= a; });
    each([](auto&, auto&, auto&, auto& d, auto&, auto&) KERF_INLINE_LAMBDA { RotateRight<16>(d); });
    each([](auto&, auto&, auto& c, auto& d, auto&, auto&) KERF_INLINE_LAMBDA { c += d; });
    each([](auto&, auto& b, auto& c, auto&, auto&, auto&) KERF_INLINE_LAMBDA { b ^= c; });
    each([](auto&, auto& b, auto&, auto&, auto&, auto&) KERF_INLINE_LAMBDA { RotateRight<12>(b); });
    each([](auto& a, auto&, auto&, auto&, auto&, auto& y) KERF_INLINE_LAMBDA { a += y; });
    each([](auto& a, auto& b, auto&, auto&, auto&, auto&) KERF_INLINE_LAMBDA { a += b; });
    each([](auto& a, auto&, auto&, auto& d, auto&, auto&) KERF_INLINE_LAMBDA { d ^= a; });
    each([](auto&, auto&, auto&, auto& d, auto&, auto&) KERF_INLINE_LAMBDA { RotateRight<8>(d); });
    each([](auto&, auto&, auto& c, auto& d, auto&, auto&) KERF_INLINE_LAMBDA { c += d; });
    each([](auto&, auto& b, auto& c, auto&, auto&, auto&) KERF_INLINE_LAMBDA { b ^= c; });
    each([](auto&, auto& b, auto&, auto&, auto&, auto&) KERF_INLINE_LAMBDA { RotateRight<7>(b); });
  });
}

template <typename Vector>
KERF_INLINE void Load(const void* from, Vector& to) {
  std::memcpy(&to, from, sizeof to);
}

// In each 128-bit block: single words, or pairs of words, of `a` and `b` in turn, from the lower or
// the upper half of the block.
template <int kLanes>
struct Interleave;
template <>
struct Interleave<4> {
  using Vector = VectorOf<4>::Type;
  static KERF_INLINE void LowWords(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  }
  static KERF_INLINE void HighWords(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  }
  static KERF_INLINE void LowPairs(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  }
  static KERF_INLINE void HighPairs(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  }
};
template <>
struct Interleave<8> {
  using Vector = VectorOf<8>::Type;
  static KERF_INLINE void LowWords(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
  }
  static KERF_INLINE void HighWords(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  }
  static KERF_INLINE void LowPairs(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  }
  static KERF_INLINE void HighPairs(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  }
};
template <>
struct Interleave<16> {
  using Vector = VectorOf<16>::Type;
  static KERF_INLINE void LowWords(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  }
  static KERF_INLINE void HighWords(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  }
  static KERF_INLINE void LowPairs(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
  }
  static KERF_INLINE void HighPairs(const Vector& a, const Vector& b, Vector& to) {
    to = __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  }
};

// `to` = the 16 bytes at rows[0], rows[4], rows[8], ... + offset, one after another.
KERF_INLINE void LoadEveryFourth(const std::uint8_t* const* rows, std::size_t offset,
                                 VectorOf<4>::Type& to) {
  Load(rows[0] + offset, to);
}
KERF_INLINE void LoadEveryFourth(const std::uint8_t* const* rows, std::size_t offset,
                                 VectorOf<8>::Type& to) {
  VectorOf<4>::Type low;
  VectorOf<4>::Type high;
  LoadEveryFourth(rows, offset, low);
  LoadEveryFourth(rows + 4, offset, high);
  to = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}
KERF_INLINE void LoadEveryFourth(const std::uint8_t* const* rows, std::size_t offset,
                                 VectorOf<16>::Type& to) {
  VectorOf<8>::Type low;
  VectorOf<8>::Type high;
  LoadEveryFourth(rows, offset, low);
  LoadEveryFourth(rows + 8, offset, high);
  to = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// words[w] = word w of the block at rows[lane] + offset, for each lane: a transposition. Loading
// every fourth row into one vector leaves two steps within 128-bit blocks.
template <int kLanes>
KERF_INLINE void LoadMessages(const std::uint8_t* const* rows, std::size_t offset,
                              typename VectorOf<kLanes>::Type* words) {
  using Vector = typename VectorOf<kLanes>::Type;
  using Turn = Interleave<kLanes>;
  for (std::size_t column = 0; column < 4; ++column) {
    Vector rows_0;
    Vector rows_1;
    Vector rows_2;
    Vector rows_3;
    LoadEveryFourth(rows + 0, offset + 16 * column, rows_0);
    LoadEveryFourth(rows + 1, offset + 16 * column, rows_1);
    LoadEveryFourth(rows + 2, offset + 16 * column, rows_2);
    LoadEveryFourth(rows + 3, offset + 16 * column, rows_3);
    Vector low_01;
    Vector high_01;
    Vector low_23;
    Vector high_23;
    Turn::LowWords(rows_0, rows_1, low_01);
    Turn::HighWords(rows_0, rows_1, high_01);
    Turn::LowWords(rows_2, rows_3, low_23);
    Turn::HighWords(rows_2, rows_3, high_23);
    Turn::LowPairs(low_01, low_23, words[4 * column]);
    Turn::HighPairs(low_01, low_23, words[4 * column + 1]);
    Turn::LowPairs(high_01, high_23, words[4 * column + 2]);
    Turn::HighPairs(high_01, high_23, words[4 * column + 3]);
  }
}
template <>
KERF_INLINE void LoadMessages<1>(const std::uint8_t* const* rows, std::size_t offset,
                                 std::uint32_t* words) {
  std::memcpy(words, rows[0] + offset, kBlockBytes);
}

// What the lanes work on. A lane without a job computes on the
// bytes of another one, and nobody looks at the result.
template <int kLanes>
struct Lanes {
  alignas(64) std::uint32_t chaining_value[8][kLanes];
  alignas(64) std::uint32_t counter_low[kLanes];
  alignas(64) std::uint32_t counter_high[kLanes];
  // Of the next blocks.
  alignas(64) std::uint32_t block_bytes[kLanes];
  alignas(64) std::uint32_t flags[kLanes];
  // Where the next block begins.
  const std::uint8_t* rows[kLanes];
  // The last block of a leaf, filled up with zeros.
  alignas(64) std::uint8_t padded[kLanes][kBlockBytes];
  const NodeJob* jobs[kLanes];
  std::uint32_t blocks_left[kLanes];
  // What no lane has begun: a cache line of `ahead` is asked for next.
  const NodeJob* ahead;
  const NodeJob* end;
  std::size_t ahead_bytes;
};

// Asks for as many lines of coming leaves, in the order of memory, as one block of every lane has:
// so many streams as there are lanes the processor does not follow by itself. A job that is no
// whole leaf only makes this ask for bytes that nobody needs.
template <int kLanes>
KERF_INLINE void PrefetchAhead(Lanes<kLanes>& lanes) {
  constexpr std::size_t kRun = kLanes < 16 ? kLanes : 16;
  for (std::size_t run = 0; run < kLanes; run += kRun) {
    if (lanes.ahead == lanes.end) return;
    const std::uint8_t* const bytes = lanes.ahead->bytes + lanes.ahead_bytes;
    for (std::size_t line = 0; line < kRun; ++line) __builtin_prefetch(bytes + line * kBlockBytes);
    lanes.ahead_bytes += kRun * kBlockBytes;
    if (lanes.ahead_bytes == kLeafBytes) {
      ++lanes.ahead;
      lanes.ahead_bytes = 0;
    }
  }
}

// Compresses the next `blocks` blocks of every lane, which have the same sizes and flags. They lie
// one behind the other.
template <int kLanes, int kGroups>
KERF_INLINE void Compress(Lanes<kLanes * kGroups>& lanes, std::size_t blocks) {
  using Vector = typename VectorOf<kLanes>::Type;
  Vector chaining_value[kGroups][8];
  Repeat<kGroups * 8>([&](auto number) KERF_INLINE_LAMBDA {
    constexpr int kGroup = decltype(number)::kValue / 8;
    constexpr int kWord = decltype(number)::kValue % 8;
    Load(lanes.chaining_value[kWord] + kGroup * kLanes, chaining_value[kGroup][kWord]);
  });
  for (std::size_t block = 0; block < blocks; ++block) {
    Vector m[kGroups][16];
    Vector s[kGroups][16];
    Repeat<kGroups>([&](auto number) KERF_INLINE_LAMBDA {
      constexpr int kGroup = decltype(number)::kValue;
      LoadMessages<kLanes>(lanes.rows + kGroup * kLanes, block * kBlockBytes, m[kGroup]);
    });
    Repeat<kGroups>([&](auto number) KERF_INLINE_LAMBDA {
      constexpr int kGroup = decltype(number)::kValue;
      Repeat<8>([&](auto word) KERF_INLINE_LAMBDA {
        constexpr int kWord = decltype(word)::kValue;
        s[kGroup][kWord] = chaining_value[kGroup][kWord];
      });
      Repeat<4>([&](auto word) KERF_INLINE_LAMBDA {
        constexpr int kWord = decltype(word)::kValue;
        s[kGroup][8 + kWord] = Vector{} + kIv[kWord];
      });
      Load(lanes.counter_low + kGroup * kLanes, s[kGroup][12]);
      Load(lanes.counter_high + kGroup * kLanes, s[kGroup][13]);
      Load(lanes.block_bytes + kGroup * kLanes, s[kGroup][14]);
      Load(lanes.flags + kGroup * kLanes, s[kGroup][15]);
    });
    PrefetchAhead(lanes);
    Repeat<kRounds>([&](auto round) KERF_INLINE_LAMBDA {
      constexpr int kRound = decltype(round)::kValue;
      HalfRound<kRound, 0>(s, m);
      HalfRound<kRound, 1>(s, m);
    });
    Repeat<kGroups * 8>([&](auto number) KERF_INLINE_LAMBDA {
      constexpr int kGroup = decltype(number)::kValue / 8;
      constexpr int kWord = decltype(number)::kValue % 8;
      chaining_value[kGroup][kWord] = s[kGroup][kWord] ^ s[kGroup][kWord + 8];
    });
  }
  Repeat<kGroups * 8>([&](auto number) KERF_INLINE_LAMBDA {
    constexpr int kGroup = decltype(number)::kValue / 8;
    constexpr int kWord = decltype(number)::kValue % 8;
    std::memcpy(lanes.chaining_value[kWord] + kGroup * kLanes, &chaining_value[kGroup][kWord],
                sizeof(Vector));
  });
}

// Sets size and flags of the lane's next block; its last one may need zeros behind it.
template <int kLanes>
KERF_INLINE void PrepareBlock(Lanes<kLanes>& lanes, int lane, bool first) {
  const NodeJob& job = *lanes.jobs[lane];
  std::uint32_t flags = job.flags;
  if (first) flags |= job.first_flags;
  lanes.block_bytes[lane] = kBlockBytes;
  if (lanes.blocks_left[lane] == 1) {
    flags |= job.last_flags;
    const std::uint32_t tail = job.size_bytes % kBlockBytes;
    if (tail != 0 || job.size_bytes == 0) {
      std::memset(lanes.padded[lane], 0, kBlockBytes);
      if (tail != 0) std::memcpy(lanes.padded[lane], lanes.rows[lane], tail);
      lanes.rows[lane] = lanes.padded[lane];
      lanes.block_bytes[lane] = tail;
    }
  }
  lanes.flags[lane] = flags;
}

template <int kLanes>
KERF_INLINE void StartJob(Lanes<kLanes>& lanes, int lane, const NodeJob& job) {
  lanes.jobs[lane] = &job;
  lanes.rows[lane] = job.bytes;
  lanes.blocks_left[lane] =
      job.size_bytes == 0 ? 1 : (job.size_bytes + kBlockBytes - 1) / kBlockBytes;
  lanes.counter_low[lane] = static_cast<std::uint32_t>(job.counter);
  lanes.counter_high[lane] = static_cast<std::uint32_t>(job.counter >> 32);
  for (int word = 0; word < 8; ++word) lanes.chaining_value[word][lane] = kIv[word];
  PrepareBlock(lanes, lane, true);
}

// A lane that has done its job takes the next one, so that leaves of all lengths share the lanes.
// `kGroups` groups of `kLanesOfGroup` lanes: several, so that one works while another waits.
template <int kLanesOfGroup, int kGroups = 1>
KERF_INLINE void HashNodes(const NodeJob* jobs, std::size_t count) {
  constexpr int kLanes = kLanesOfGroup * kGroups;
  Lanes<kLanes> lanes;
  std::size_t next = 0;
  std::size_t active = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes.jobs[lane] = nullptr;
    if (next < count) {
      StartJob(lanes, lane, jobs[next++]);
      ++active;
    }
  }
  lanes.ahead = jobs + next;
  lanes.end = jobs + count;
  lanes.ahead_bytes = 0;
  // How many blocks lie before the next change of size or flags in any lane. All lanes have just
  // begun a leaf.
  std::size_t steps = 1;
  while (active > 0) {
    const std::uint8_t* idle_row = nullptr;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lanes.jobs[lane] != nullptr) idle_row = lanes.rows[lane];
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lanes.jobs[lane] == nullptr) lanes.rows[lane] = idle_row;
    }
    Compress<kLanesOfGroup, kGroups>(lanes, steps);
    std::size_t next_steps = kLeafBytes / kBlockBytes;
    for (int lane = 0; lane < kLanes; ++lane) {
      const NodeJob* const job = lanes.jobs[lane];
      if (job == nullptr) continue;
      lanes.rows[lane] += steps * kBlockBytes;
      lanes.blocks_left[lane] -= static_cast<std::uint32_t>(steps);
      if (lanes.blocks_left[lane] == 0) {
        for (int word = 0; word < 8; ++word) {
          job->chaining_value[word] = lanes.chaining_value[word][lane];
        }
        if (next == count) {
          lanes.jobs[lane] = nullptr;
          --active;
          continue;
        }
        StartJob(lanes, lane, jobs[next++]);
        next_steps = 1;
      } else {
        PrepareBlock(lanes, lane, false);
        const std::size_t same = lanes.blocks_left[lane] == 1 ? 1 : lanes.blocks_left[lane] - 1;
        if (same < next_steps) next_steps = same;
      }
    }
    steps = next_steps;
  }
}

}  // namespace
}  // namespace kerf::blake3
