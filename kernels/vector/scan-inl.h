// The two primitives of VectorCDC (Udayashankar et al., FAST 2025, section 4) for one Highway
// target: extreme byte search and range scan. Nothing outside the given range is read.
//
// All work on blocks of 64 bytes, whatever the vectors have, so that a block's answer is one 64-bit
// mask. No rule has a window or a minimum below 64 bytes: a range that is shorter than a block is
// rare, and may be slow where its neighbours may not be read with it.
//
// A per-target include: no ordinary guard.
#if defined(KERF_KERNELS_VECTOR_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_SCAN_INL_H_
#undef KERF_KERNELS_VECTOR_SCAN_INL_H_
#else
#define KERF_KERNELS_VECTOR_SCAN_INL_H_
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::CappedTag<std::uint8_t, 64>;
using ByteVector = hn::Vec<ByteTag>;
inline constexpr ByteTag kBytes;
inline constexpr std::size_t kLanes = hn::MaxLanes(ByteTag());
static_assert(kLanes == 16 || kLanes == 32 || kLanes == 64);

inline constexpr std::size_t kBlockBytes = 64;
// What is read before one test asks whether there was anything.
inline constexpr std::size_t kStrideBytes = 4 * kBlockBytes;
inline constexpr std::size_t kNowhere = ~std::size_t{0};

// How far ahead of the reading bytes are asked for: three pages, several times what memory delivers
// in the time of one miss, because the addresses of pages must be looked up as well. The
// processor's own prefetching ends at each page, skip and step back.
inline constexpr std::size_t kPrefetchBytes = 12288;

// Asks for the cache lines of a block, and of four. They may lie behind the bytes: nothing is read.
HWY_INLINE void PrefetchBlock(const std::uint8_t* bytes) { __builtin_prefetch(bytes); }
HWY_INLINE void PrefetchStride(const std::uint8_t* bytes) {
  PrefetchBlock(bytes);
  PrefetchBlock(bytes + kBlockBytes);
  PrefetchBlock(bytes + 2 * kBlockBytes);
  PrefetchBlock(bytes + 3 * kBlockBytes);
}
HWY_INLINE void PrefetchBlocks(const std::uint8_t* bytes, std::size_t count) {
  for (std::size_t index = 0; index < count; ++index) PrefetchBlock(bytes + index * kBlockBytes);
}

// One bit a lane, the first lane's lowest.
template <typename Mask>
HWY_INLINE std::uint64_t MaskBits(const Mask mask) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return static_cast<std::uint64_t>(mask.raw);
#elif HWY_ARCH_X86
  return hn::detail::BitsFromMask(mask);
#else
  std::uint8_t stored[8] = {};
  hn::StoreMaskBits(kBytes, mask, stored);
  std::uint64_t bits = 0;
  std::memcpy(&bits, stored, sizeof bits);
  return bits;
#endif
}

// What a rule looks for: bytes that stand in this relation to a given one. Strongest(a, b) passes
// the test where a or b does.
struct GreaterThan {
  static constexpr bool Test(std::uint8_t byte, std::uint8_t bound) { return byte > bound; }
  static HWY_INLINE hn::Mask<ByteTag> Test(ByteVector bytes, ByteVector bound) {
    return hn::Gt(bytes, bound);
  }
  template <typename Vector>
  static HWY_INLINE Vector Strongest(Vector a, Vector b) {
    return hn::Max(a, b);
  }
};
struct AtLeast {
  static constexpr bool Test(std::uint8_t byte, std::uint8_t bound) { return byte >= bound; }
  static HWY_INLINE hn::Mask<ByteTag> Test(ByteVector bytes, ByteVector bound) {
    return hn::Eq(hn::Max(bytes, bound), bytes);
  }
  template <typename Vector>
  static HWY_INLINE Vector Strongest(Vector a, Vector b) {
    return hn::Max(a, b);
  }
};
struct LessThan {
  static constexpr bool Test(std::uint8_t byte, std::uint8_t bound) { return byte < bound; }
  static HWY_INLINE hn::Mask<ByteTag> Test(ByteVector bytes, ByteVector bound) {
    return hn::Lt(bytes, bound);
  }
  template <typename Vector>
  static HWY_INLINE Vector Strongest(Vector a, Vector b) {
    return hn::Min(a, b);
  }
};
struct EqualTo {
  static HWY_INLINE hn::Mask<ByteTag> Test(ByteVector bytes, ByteVector bound) {
    return hn::Eq(bytes, bound);
  }
};

// The strongest of each column of a block, and of four blocks.
template <typename Relation>
HWY_INLINE ByteVector StrongestOfBlock(const std::uint8_t* bytes) {
  const ByteVector first = hn::LoadU(kBytes, bytes);
  if constexpr (kLanes == 64) {
    return first;
  } else if constexpr (kLanes == 32) {
    return Relation::Strongest(first, hn::LoadU(kBytes, bytes + 32));
  } else {
    return Relation::Strongest(
        Relation::Strongest(first, hn::LoadU(kBytes, bytes + 16)),
        Relation::Strongest(hn::LoadU(kBytes, bytes + 32), hn::LoadU(kBytes, bytes + 48)));
  }
}

template <typename Relation>
HWY_INLINE ByteVector StrongestOfStride(const std::uint8_t* bytes) {
  return Relation::Strongest(
      Relation::Strongest(StrongestOfBlock<Relation>(bytes),
                          StrongestOfBlock<Relation>(bytes + kBlockBytes)),
      Relation::Strongest(StrongestOfBlock<Relation>(bytes + 2 * kBlockBytes),
                          StrongestOfBlock<Relation>(bytes + 3 * kBlockBytes)));
}

// Which bytes of a block pass, the first one's bit lowest.
template <typename Relation>
HWY_INLINE std::uint64_t BlockBits(const std::uint8_t* bytes, ByteVector bounds) {
  const auto bits = [&](std::size_t index) HWY_ATTR {
    return MaskBits(Relation::Test(hn::LoadU(kBytes, bytes + index), bounds)) << (index % 64);
  };
  if constexpr (kLanes == 64) {
    return bits(0);
  } else if constexpr (kLanes == 32) {
    return bits(0) | bits(32);
  } else {
    return (bits(0) | bits(16)) | (bits(32) | bits(48));
  }
}

// The first byte of a stride that passes; one does. In which block it lies nobody can predict: no
// branches.
template <typename Relation>
HWY_INLINE std::size_t FirstOfStride(const std::uint8_t* bytes, ByteVector bounds) {
  const std::uint64_t bits_0 = BlockBits<Relation>(bytes, bounds);
  const std::uint64_t bits_1 = BlockBits<Relation>(bytes + kBlockBytes, bounds);
  const std::uint64_t bits_2 = BlockBits<Relation>(bytes + 2 * kBlockBytes, bounds);
  std::uint64_t bits = BlockBits<Relation>(bytes + 3 * kBlockBytes, bounds);
  std::size_t index = 3 * kBlockBytes;
  index = bits_2 != 0 ? 2 * kBlockBytes : index;
  bits = bits_2 != 0 ? bits_2 : bits;
  index = bits_1 != 0 ? kBlockBytes : index;
  bits = bits_1 != 0 ? bits_1 : bits;
  index = bits_0 != 0 ? 0 : index;
  bits = bits_0 != 0 ? bits_0 : bits;
  return index + static_cast<std::size_t>(std::countr_zero(bits));
}

// Range scan: the first position in [from, to) whose byte passes the test, or `to`.
template <typename Relation>
HWY_INLINE std::size_t FindFirst(const std::uint8_t* bytes, std::size_t from, std::size_t to,
                                 std::uint8_t bound) {
  const ByteVector bounds = hn::Set(kBytes, bound);
  std::size_t index = from;
  for (; index + kStrideBytes <= to; index += kStrideBytes) {
    PrefetchStride(bytes + index + kPrefetchBytes);
    const ByteVector strongest = StrongestOfStride<Relation>(bytes + index);
    if (hn::AllFalse(kBytes, Relation::Test(strongest, bounds))) continue;
    return index + FirstOfStride<Relation>(bytes + index, bounds);
  }
  for (; index + kBlockBytes <= to; index += kBlockBytes) {
    const std::uint64_t bits = BlockBits<Relation>(bytes + index, bounds);
    if (bits != 0) return index + static_cast<std::size_t>(std::countr_zero(bits));
  }
  if (index == to) return to;
  if (to - from >= kBlockBytes) {
    // The last whole block; what it shares with the one before does not pass.
    const std::size_t start = to - kBlockBytes;
    const std::uint64_t bits = BlockBits<Relation>(bytes + start, bounds);
    return bits != 0 ? start + static_cast<std::size_t>(std::countr_zero(bits)) : to;
  }
  for (; index < to; ++index) {
    if (Relation::Test(bytes[index], bound)) return index;
  }
  return to;
}

// Range scan from behind: the last position in front of `to` whose byte equals `wanted`. There is
// one; up to 63 bytes in front of it are read.
HWY_INLINE std::size_t FindLastEqual(const std::uint8_t* bytes, std::size_t to,
                                     std::uint8_t wanted) {
  const ByteVector wanteds = hn::Set(kBytes, wanted);
  std::size_t index = to;
  std::uint64_t bits = 0;
  do {
    index -= kBlockBytes;
    bits = BlockBits<EqualTo>(bytes + index, wanteds);
  } while (bits == 0);
  return index + static_cast<std::size_t>(63 - std::countl_zero(bits));
}

// The strongest lane of a vector of at least 16 bytes.
template <typename Relation, typename Tag>
HWY_INLINE std::uint8_t StrongestLane(Tag tag, hn::Vec<Tag> vector) {
  if constexpr (hn::MaxLanes(Tag()) > 16) {
    const hn::Half<Tag> half;
    return StrongestLane<Relation>(
        half, Relation::Strongest(hn::LowerHalf(half, vector), hn::UpperHalf(half, vector)));
  } else {
#if HWY_ARCH_X86
    // One instruction finds the least of eight words.
    constexpr std::uint8_t kFlip = Relation::Test(255, 0) ? 255 : 0;
    const __m128i bytes = hn::Xor(vector, hn::Set(tag, kFlip)).raw;
    const __m128i words = _mm_min_epu8(bytes, _mm_srli_epi16(bytes, 8));
    return static_cast<std::uint8_t>(_mm_cvtsi128_si32(_mm_minpos_epu16(words)) ^ kFlip);
#else
    vector = Relation::Strongest(vector, hn::ShiftRightBytes<8>(tag, vector));
    vector = Relation::Strongest(vector, hn::ShiftRightBytes<4>(tag, vector));
    vector = Relation::Strongest(vector, hn::ShiftRightBytes<2>(tag, vector));
    return hn::GetLane(Relation::Strongest(vector, hn::ShiftRightBytes<1>(tag, vector)));
#endif
  }
}

// The strongest of some columns of bytes[from, to), at least a block. Four accumulators, so that
// loads, not the chain of maxima, are the limit.
template <typename Relation>
HWY_INLINE ByteVector StrongestColumns(const std::uint8_t* bytes, std::size_t from,
                                       std::size_t to) {
  // The last block may overlap the others: an extreme does not mind.
  ByteVector strongest_0 = StrongestOfBlock<Relation>(bytes + to - kBlockBytes);
  ByteVector strongest_1 = strongest_0;
  ByteVector strongest_2 = strongest_0;
  ByteVector strongest_3 = strongest_0;
  std::size_t index = from;
  for (; index + kStrideBytes <= to; index += kStrideBytes) {
    const std::uint8_t* const stride = bytes + index;
    PrefetchStride(stride + kPrefetchBytes);
    strongest_0 = Relation::Strongest(strongest_0, StrongestOfBlock<Relation>(stride));
    strongest_1 =
        Relation::Strongest(strongest_1, StrongestOfBlock<Relation>(stride + kBlockBytes));
    strongest_2 =
        Relation::Strongest(strongest_2, StrongestOfBlock<Relation>(stride + 2 * kBlockBytes));
    strongest_3 =
        Relation::Strongest(strongest_3, StrongestOfBlock<Relation>(stride + 3 * kBlockBytes));
  }
  for (; index + kBlockBytes <= to; index += kBlockBytes) {
    strongest_0 = Relation::Strongest(strongest_0, StrongestOfBlock<Relation>(bytes + index));
  }
  return Relation::Strongest(Relation::Strongest(strongest_0, strongest_1),
                             Relation::Strongest(strongest_2, strongest_3));
}

// Extreme byte search: the strongest of bytes[from, to), at least a block.
template <typename Relation>
HWY_INLINE std::uint8_t StrongestByte(const std::uint8_t* bytes, std::size_t from, std::size_t to) {
  return StrongestLane<Relation>(kBytes, StrongestColumns<Relation>(bytes, from, to));
}

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
