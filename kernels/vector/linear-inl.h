// Linear rolling hashes (CRC-32, Rabin) of a whole block of bytes at once, for one Highway target.
//
// A block is cut into strips of 64 bytes, one for each lane of a vector of bytes, and turned, so
// that column t holds byte t of every strip. The hash of all strips then rolls down the columns
// together: its state lies in planes, a vector for each of its bytes, and what one byte does to
// another is a linear map, which is one instruction with GFNI and two table look-ups of half bytes
// without. Nothing is gathered. What each strip begins with is computed from the strips before it,
// by doubling or by a first pass; those of the block before are the carry.
//
// A per-target include: no ordinary guard.
#if defined(KERF_KERNELS_VECTOR_LINEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_LINEAR_INL_H_
#undef KERF_KERNELS_VECTOR_LINEAR_INL_H_
#else
#define KERF_KERNELS_VECTOR_LINEAR_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/profile.h"
#include "kernels/vector/linear_maps.h"
#include "kernels/vector/strips-inl.h"

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

// One strip a lane.
inline constexpr std::size_t kBlockStrips = kHashVectorBytes;
inline constexpr std::size_t kLinearBlockBytes = kBlockStrips * kLinearStripBytes;

// Bytes to which maps are applied.
#if HWY_TARGET == HWY_AVX3_DL
struct MapInput {
  HWY_INLINE explicit MapInput(HashBytes value) : bytes(value) {}
  HWY_INLINE HashBytes Map(const ByteMap& map) const {
    return HashBytes{_mm512_gf2p8affine_epi64_epi8(bytes.raw, MatrixForAll(map.matrix).raw, 0)};
  }
  HashBytes bytes;
};
#else
struct MapInput {
  HWY_INLINE explicit MapInput(HashBytes bytes)
      : low(hn::And(bytes, hn::Set(HashByteTag(), 0x0F))),
        high(hn::And(hn::BitCast(HashByteTag(),
                                 hn::ShiftRight<4>(hn::BitCast(LaneTag<std::uint16_t>(), bytes))),
                     hn::Set(HashByteTag(), 0x0F))) {}
  HWY_INLINE HashBytes Map(const ByteMap& map) const {
    const HashByteTag tag;
    return hn::Xor(hn::TableLookupBytes(hn::LoadDup128(tag, map.low.data()), low),
                   hn::TableLookupBytes(hn::LoadDup128(tag, map.high.data()), high));
  }
  HashBytes low;
  HashBytes high;
};
#endif

// A state of every strip, in planes. Members, not an array: what has an address stays in memory.
struct CrcState {
  HashBytes at_0, at_1, at_2, at_3;
};
struct RabinState {
  HashBytes at_0, at_1, at_2, at_3, at_4, at_5, at_6;
};

HWY_INLINE CrcState ZeroCrc() {
  const HashBytes zero = hn::Zero(HashByteTag());
  return {zero, zero, zero, zero};
}
HWY_INLINE RabinState ZeroRabin() {
  const HashBytes zero = hn::Zero(HashByteTag());
  return {zero, zero, zero, zero, zero, zero, zero};
}

// The states of the strips so far before each one.
template <std::size_t kLanes>
HWY_INLINE CrcState ShiftInAll(const CrcState& states, const CrcState& before) {
  return {ShiftIn<kLanes>(states.at_0, before.at_0), ShiftIn<kLanes>(states.at_1, before.at_1),
          ShiftIn<kLanes>(states.at_2, before.at_2), ShiftIn<kLanes>(states.at_3, before.at_3)};
}
template <std::size_t kLanes>
HWY_INLINE RabinState ShiftInAll(const RabinState& states, const RabinState& before) {
  return {ShiftIn<kLanes>(states.at_0, before.at_0), ShiftIn<kLanes>(states.at_1, before.at_1),
          ShiftIn<kLanes>(states.at_2, before.at_2), ShiftIn<kLanes>(states.at_3, before.at_3),
          ShiftIn<kLanes>(states.at_4, before.at_4), ShiftIn<kLanes>(states.at_5, before.at_5),
          ShiftIn<kLanes>(states.at_6, before.at_6)};
}

// A block, turned.
struct Columns {
  alignas(64) std::uint8_t bytes[kLinearStripBytes][kBlockStrips];

  HWY_INLINE HashBytes At(std::size_t step) const { return hn::Load(HashByteTag(), bytes[step]); }
};

// Block k of 16 bytes from strip 16 k.
HWY_INLINE HashBytes LoadEvery16thStrip(const std::uint8_t* bytes) {
  constexpr std::size_t kApart = 16 * kLinearStripBytes;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const auto load = [](const std::uint8_t* from) HWY_ATTR {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  __m512i blocks = _mm512_castsi128_si512(load(bytes));
  blocks = _mm512_inserti32x4(blocks, load(bytes + kApart), 1);
  blocks = _mm512_inserti32x4(blocks, load(bytes + 2 * kApart), 2);
  blocks = _mm512_inserti32x4(blocks, load(bytes + 3 * kApart), 3);
  return HashBytes{blocks};
#elif HWY_TARGET == HWY_AVX2
  return hn::Combine(HashByteTag(), hn::LoadU(hn::Half<HashByteTag>(), bytes + kApart),
                     hn::LoadU(hn::Half<HashByteTag>(), bytes));
#else
  static_assert(kHashVectorBytes == 16);
  static_cast<void>(kApart);
  return hn::LoadU(HashByteTag(), bytes);
#endif
}

// Sixteen columns. To interleave the bytes of registers i and i + 8 turns the eight bits of the
// number of a byte (register, place) by one; four times exchange register and place.
HWY_INLINE void TurnColumns(const std::uint8_t* bytes, std::uint8_t (*columns)[kBlockStrips]) {
  const HashByteTag tag;
  HashBytes rows[16];
  HashBytes mixed[16];
#pragma GCC unroll 16
  for (std::size_t row = 0; row < 16; ++row) {
    rows[row] = LoadEvery16thStrip(bytes + row * kLinearStripBytes);
  }
  const auto interleave = [tag](const HashBytes(&from)[16], HashBytes(&to)[16]) HWY_ATTR {
#pragma GCC unroll 8
    for (std::size_t row = 0; row < 8; ++row) {
      to[2 * row] = hn::InterleaveLower(tag, from[row], from[row + 8]);
      to[2 * row + 1] = hn::InterleaveUpper(tag, from[row], from[row + 8]);
    }
  };
  interleave(rows, mixed);
  interleave(mixed, rows);
  interleave(rows, mixed);
  interleave(mixed, rows);
#pragma GCC unroll 16
  for (std::size_t row = 0; row < 16; ++row) hn::Store(rows[row], tag, columns[row]);
}

HWY_INLINE void TurnBlock(const std::uint8_t* bytes, Columns& columns) {
  for (std::size_t line = 0; line < kLinearBlockBytes; line += 64) PrefetchAhead(bytes + line);
  for (std::size_t step = 0; step < kLinearStripBytes; step += 16) {
    TurnColumns(bytes + step, columns.bytes + step);
  }
}

// Low bits that must be zero for a mark, by plane; `strict` holds all bits of `loose`.
struct LinearMasks {
  static constexpr std::size_t kTestedPlanes = 3;

  HWY_INLINE LinearMasks(std::uint32_t strict_mask, std::uint32_t loose_mask) {
    for (std::size_t plane = 0; plane < kTestedPlanes; ++plane) {
      strict[plane] = hn::Set(HashByteTag(), static_cast<std::uint8_t>(strict_mask >> 8 * plane));
      loose[plane] = hn::Set(HashByteTag(), static_cast<std::uint8_t>(loose_mask >> 8 * plane));
    }
  }

  template <typename State>
  static HWY_INLINE std::uint64_t Lanes(const State& state,
                                        const HashBytes (&mask)[kTestedPlanes]) {
    const HashBytes low = hn::And(state.at_0, mask[0]);
    const HashBytes rest = hn::OrAnd(hn::And(state.at_1, mask[1]), state.at_2, mask[2]);
    return BitsOf(HashByteTag(), hn::Eq(hn::Or(low, rest), hn::Zero(HashByteTag())));
  }

  HashBytes strict[kTestedPlanes];
  HashBytes loose[kTestedPlanes];
};

// The marks of a block: word s is strip s, bit t its byte t.
struct BlockMarks {
  std::uint64_t loose[kBlockStrips];
  std::uint64_t strict[kBlockStrips];
};

// From bits of lanes, by step, to words of positions, by lane.
inline void TurnBits(std::uint64_t (&bits)[64], std::uint64_t (&words)[kBlockStrips]) {
  std::uint64_t mask = 0x00000000FFFFFFFF;
  for (std::size_t half = 32; half != 0; half /= 2, mask ^= mask << half) {
    for (std::size_t row = 0; row < 64; row = ((row | half) + 1) & ~half) {
      const std::uint64_t moved = (bits[row] >> half ^ bits[row | half]) & mask;
      bits[row] ^= moved << half;
      bits[row | half] ^= moved;
    }
  }
  for (std::size_t word = 0; word < kBlockStrips; ++word) words[word] = bits[word];
}

// Collects what the steps find.
template <bool kTwoMasks>
class StepMarks {
 public:
  HWY_INLINE explicit StepMarks(const LinearMasks& masks) : masks_(masks) {}

  template <typename State>
  HWY_INLINE void Test(std::size_t step, const State& state) {
    loose_[step] = LinearMasks::Lanes(state, masks_.loose);
    any_ |= loose_[step];
    if constexpr (kTwoMasks) strict_[step] = LinearMasks::Lanes(state, masks_.strict);
  }

  // Whether there are marks; only then they are written.
  HWY_INLINE bool Take(BlockMarks& marks) {
    if (HWY_LIKELY(any_ == 0)) return false;
    TurnBits(loose_, marks.loose);
    if constexpr (kTwoMasks) TurnBits(strict_, marks.strict);
    return true;
  }

 private:
  const LinearMasks& masks_;
  std::uint64_t any_ = 0;
  std::uint64_t loose_[kLinearStripBytes];
  std::uint64_t strict_[kTwoMasks ? kLinearStripBytes : 1];
};

// The blocks of a stream, one after the other. Before the first all bytes count as zeros.
class CrcStrips {
 public:
  // Strips before the one whose hashes are right whatever lies before.
  static constexpr std::size_t kWindowStrips = kCrcWindowBytes / kLinearStripBytes;
  static_assert(kWindowStrips == 4);

  HWY_INLINE CrcStrips() { std::memset(columns_[1].bytes, 0, sizeof columns_[1].bytes); }

  // Hashes `bytes`[0, kLinearBlockBytes). `marks` is written only where the result is true.
  template <bool kTwoMasks>
  HWY_INLINE bool Block(const std::uint8_t* bytes, const LinearMasks& masks, BlockMarks& marks) {
    Columns& columns = columns_[current_];
    const Columns& before = columns_[1 - current_];
    current_ = 1 - current_;
    TurnBlock(bytes, columns);
    CrcState state = ZeroCrc();
    for (std::size_t step = 0; step < kLinearStripBytes; ++step) {
      state = Slide(state, columns.At(step));
    }
    state = Start(state);
    StepMarks<kTwoMasks> found(masks);
    for (std::size_t step = 0; step < kLinearStripBytes; ++step) {
      const HashBytes byte = columns.At(step);
      const MapInput leaving(ShiftIn<kWindowStrips>(byte, before.At(step)));
      state = Sum(Slide(state, byte), MapAll(leaving, maps_.out));
      found.Test(step, state);
    }
    return found.Take(marks);
  }

 private:
  HWY_INLINE CrcState Slide(const CrcState& state, HashBytes byte) const {
    const MapInput fed(hn::Xor(state.at_0, byte));
    return {hn::Xor(state.at_1, fed.Map(maps_.feed[0])),
            hn::Xor(state.at_2, fed.Map(maps_.feed[1])),
            hn::Xor(state.at_3, fed.Map(maps_.feed[2])), fed.Map(maps_.feed[3])};
  }

  static HWY_INLINE CrcState MapAll(const MapInput& input, const PlaneMaps<4>& maps) {
    return {input.Map(maps[0]), input.Map(maps[1]), input.Map(maps[2]), input.Map(maps[3])};
  }

  static HWY_INLINE CrcState Sum(const CrcState& left, const CrcState& right) {
    return {hn::Xor(left.at_0, right.at_0), hn::Xor(left.at_1, right.at_1),
            hn::Xor(left.at_2, right.at_2), hn::Xor(left.at_3, right.at_3)};
  }

  static HWY_INLINE CrcState Advance(const CrcState& state,
                                     const std::array<PlaneMaps<4>, 4>& past) {
    return Sum(Sum(MapAll(MapInput(state.at_0), past[0]), MapAll(MapInput(state.at_1), past[1])),
               Sum(MapAll(MapInput(state.at_2), past[2]), MapAll(MapInput(state.at_3), past[3])));
  }

  // The hashes of the four strips before each one, from those of each strip alone.
  HWY_INLINE CrcState Start(const CrcState& strips_1) {
    const CrcState strips_2 =
        Sum(strips_1, Advance(ShiftInAll<1>(strips_1, strips_1_), maps_.past_1_strip));
    const CrcState strips_4 =
        Sum(strips_2, Advance(ShiftInAll<2>(strips_2, strips_2_), maps_.past_2_strips));
    const CrcState start = ShiftInAll<1>(strips_4, strips_4_);
    strips_1_ = strips_1;
    strips_2_ = strips_2;
    strips_4_ = strips_4;
    return start;
  }

  const CrcMaps& maps_ = CrcByteMaps();
  Columns columns_[2];
  std::size_t current_ = 0;
  // Of the block before: the hashes over one, two and four strips.
  CrcState strips_1_ = ZeroCrc();
  CrcState strips_2_ = ZeroCrc();
  CrcState strips_4_ = ZeroCrc();
};

// As CrcStrips. The window is less than a strip, so that a first pass over the end of each strip
// gives what the next one begins with.
class RabinStrips {
 public:
  static constexpr std::size_t kWindowStrips = 1;
  static_assert(kRabinWindowBytes <= kLinearStripBytes);

  HWY_INLINE RabinStrips() { std::memset(columns_[1].bytes, 0, sizeof columns_[1].bytes); }

  template <bool kTwoMasks>
  HWY_INLINE bool Block(const std::uint8_t* bytes, const LinearMasks& masks, BlockMarks& marks) {
    constexpr std::size_t kFirstOfWindow = kLinearStripBytes - kRabinWindowBytes;
    Columns& columns = columns_[current_];
    const Columns& before = columns_[1 - current_];
    current_ = 1 - current_;
    TurnBlock(bytes, columns);
    RabinState ends = ZeroRabin();
    for (std::size_t step = kFirstOfWindow; step < kLinearStripBytes; ++step) {
      ends = Slide(ends, columns.At(step));
    }
    RabinState state = ShiftInAll<1>(ends, ends_);
    ends_ = ends;
    StepMarks<kTwoMasks> found(masks);
    for (std::size_t step = 0; step < kRabinWindowBytes; ++step) {
      const std::size_t left = step + kFirstOfWindow;
      state = SlideOn(state, columns.At(step), ShiftIn<1>(columns.At(left), before.At(left)));
      found.Test(step, state);
    }
    for (std::size_t step = kRabinWindowBytes; step < kLinearStripBytes; ++step) {
      state = SlideOn(state, columns.At(step), columns.At(step - kRabinWindowBytes));
      found.Test(step, state);
    }
    return found.Take(marks);
  }

 private:
  HWY_INLINE RabinState Slide(const RabinState& state, HashBytes byte) const {
    const MapInput top(state.at_6);
    const MapInput arriving(byte);
    return {hn::Xor(arriving.Map(maps_.in[0]), top.Map(maps_.feed[0])),
            hn::Xor(state.at_0, hn::Xor(arriving.Map(maps_.in[1]), top.Map(maps_.feed[1]))),
            hn::Xor(state.at_1, top.Map(maps_.feed[2])),
            hn::Xor(state.at_2, top.Map(maps_.feed[3])),
            hn::Xor(state.at_3, top.Map(maps_.feed[4])),
            hn::Xor(state.at_4, top.Map(maps_.feed[5])),
            hn::Xor(state.at_5, top.Map(maps_.feed[6]))};
  }

  HWY_INLINE RabinState SlideOn(const RabinState& state, HashBytes byte, HashBytes leaving) const {
    const MapInput left(leaving);
    const RabinState next = Slide(state, byte);
    return {hn::Xor(next.at_0, left.Map(maps_.out[0])), hn::Xor(next.at_1, left.Map(maps_.out[1])),
            hn::Xor(next.at_2, left.Map(maps_.out[2])), hn::Xor(next.at_3, left.Map(maps_.out[3])),
            hn::Xor(next.at_4, left.Map(maps_.out[4])), hn::Xor(next.at_5, left.Map(maps_.out[5])),
            hn::Xor(next.at_6, left.Map(maps_.out[6]))};
  }

  const RabinMaps& maps_ = RabinByteMaps();
  Columns columns_[2];
  std::size_t current_ = 0;
  // Of the block before: the hashes at the ends of its strips.
  RabinState ends_ = ZeroRabin();
};

// Hashes the blocks from `from` on, as if all before were zeros, and calls
// take(start of the block, marks) for each that has marks and begins before `to`, until it returns
// true or the blocks end. Of what lies behind `bytes` nothing is read and the marks mean nothing.
template <typename Strips, bool kTwoMasks, typename Take>
HWY_INLINE void ForMarkedBlocks(std::span<const std::uint8_t> bytes, std::size_t from,
                                std::size_t to, const LinearMasks& masks, const Take& take) {
  Strips strips;
  BlockMarks marks;
  std::size_t start = from;
  for (; start < to && start + kLinearBlockBytes <= bytes.size(); start += kLinearBlockBytes) {
    if (!strips.template Block<kTwoMasks>(bytes.data() + start, masks, marks)) continue;
    if (take(start, marks)) return;
  }
  if (start >= to || start >= bytes.size()) return;
  alignas(64) std::uint8_t padded[kLinearBlockBytes] = {};
  std::memcpy(padded, bytes.data() + start, bytes.size() - start);
  if (strips.template Block<kTwoMasks>(padded, masks, marks)) take(start, marks);
}

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
