// Gear hashes of all positions of a vector of bytes at once, for one Highway target.
//
// A gear hash of L bits is h(i) = sum of G[b[i-k]] << k over the last L bytes. A vector of bytes is
// cut into strips of T = L/8 bytes, one for each lane of L bits: T registers of L-bit lanes hold
// the table's values, register t those of byte t of every strip. Within a strip the sum rolls on
// from register to register; across strips three log-step doublings (of T, 2T and 4T bytes) give
// the hash at each strip's end, from which the next strip rolls on. Only those shift lanes; what
// they take from the vector before is the carry.
//
// A per-target include: no ordinary guard.
#if defined(KERF_KERNELS_VECTOR_STRIPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_STRIPS_INL_H_
#undef KERF_KERNELS_VECTOR_STRIPS_INL_H_
#else
#define KERF_KERNELS_VECTOR_STRIPS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

// Highway's AVX3_DL leaves gfni out of what the compiler may use; the backend asks for it.
#undef KERF_BEFORE_HASHES
#if HWY_TARGET == HWY_AVX3_DL
#define KERF_BEFORE_HASHES() HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",gfni") static_assert(true, "")
#else
#define KERF_BEFORE_HASHES() HWY_BEFORE_NAMESPACE()
#endif

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Of a fixed size: targets with scalable vectors are left out.
using HashByteTag = hn::CappedTag<std::uint8_t, 64>;
using HashBytes = hn::Vec<HashByteTag>;
inline constexpr std::size_t kHashVectorBytes = hn::MaxLanes(HashByteTag());

template <typename Lane>
using LaneTag = hn::Repartition<Lane, HashByteTag>;
template <typename Lane>
using LaneVector = hn::Vec<LaneTag<Lane>>;

// Bytes a strip.
template <typename Lane>
inline constexpr std::size_t kStripBytes = sizeof(Lane);
// Bytes that a hash sees.
template <typename Lane>
inline constexpr std::size_t kWindowBytes = 8 * sizeof(Lane);

// One register for each byte of a strip.
template <typename Lane>
struct ByStrip;
template <>
struct ByStrip<std::uint16_t> {
  LaneVector<std::uint16_t> at_0, at_1;
};
template <>
struct ByStrip<std::uint32_t> {
  LaneVector<std::uint32_t> at_0, at_1, at_2, at_3;
};
template <>
struct ByStrip<std::uint64_t> {
  LaneVector<std::uint64_t> at_0, at_1, at_2, at_3, at_4, at_5, at_6, at_7;
};

// The sums over 1, 2, 4 and 8 strips of the vector before. Zero at the start: as if all bytes
// before had the value 0, which is how a hash begins that has seen none.
template <typename Lane>
struct Carry {
  // Written out, as others below: what the compiler makes by itself is not for this target.
  HWY_INLINE Carry()
      : strips_1(hn::Zero(LaneTag<Lane>())),
        strips_2(strips_1),
        strips_4(strips_1),
        strips_8(strips_1) {}

  LaneVector<Lane> strips_1;
  LaneVector<Lane> strips_2;
  LaneVector<Lane> strips_4;
  LaneVector<Lane> strips_8;
};

// Each lane takes that `kLanes` before it; the first ones those of the end of `before`.
template <std::size_t kLanes, typename V>
HWY_INLINE V ShiftIn(V vector, V before) {
  constexpr std::size_t kBytes = kLanes * sizeof(hn::TFromV<V>);
  const hn::DFromV<V> tag;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  static_cast<void>(tag);
  static_assert(kBytes % 4 == 0 || kBytes < 16);
  if constexpr (kBytes % 4 == 0) {
    return V{_mm512_alignr_epi32(vector.raw, before.raw, 16 - kBytes / 4)};
  } else {
    const __m512i blocks = _mm512_alignr_epi32(vector.raw, before.raw, 12);
    return V{_mm512_alignr_epi8(vector.raw, blocks, 16 - kBytes)};
  }
#elif HWY_TARGET == HWY_AVX2
  static_assert(kBytes <= 16);
  const V blocks{_mm256_permute2x128_si256(before.raw, vector.raw, 0x21)};
  if constexpr (kBytes == 16) {
    return blocks;
  } else {
    return hn::CombineShiftRightBytes<16 - kBytes>(tag, vector, blocks);
  }
#else
  static_assert(kHashVectorBytes == 16 && kBytes <= 16);
  if constexpr (kBytes == 16) {
    return before;
  } else {
    return hn::CombineShiftRightBytes<16 - kBytes>(tag, vector, before);
  }
#endif
}

// Within each block of 16 bytes, byte 0 of all strips, then byte 1 of all, ...
template <typename Lane>
HWY_INLINE HashBytes GroupStrips(HashBytes bytes) {
  alignas(16) static constexpr std::uint8_t kBy2[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                        1, 3, 5, 7, 9, 11, 13, 15};
  alignas(16) static constexpr std::uint8_t kBy4[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                        2, 6, 10, 14, 3, 7, 11, 15};
  alignas(16) static constexpr std::uint8_t kBy8[16] = {0, 8,  1, 9,  2, 10, 3, 11,
                                                        4, 12, 5, 13, 6, 14, 7, 15};
  constexpr const std::uint8_t* kOrder = kStripBytes<Lane> == 2   ? kBy2
                                         : kStripBytes<Lane> == 4 ? kBy4
                                                                  : kBy8;
  return hn::TableLookupBytes(bytes, hn::LoadDup128(HashByteTag(), kOrder));
}

// Values of the table, from the planes of their bytes, least first.
HWY_INLINE ByStrip<std::uint16_t> Unite(HashBytes plane_0, HashBytes plane_1) {
  const LaneTag<std::uint16_t> tag;
  return {hn::ZipLower(tag, plane_0, plane_1), hn::ZipUpper(tag, plane_0, plane_1)};
}
HWY_INLINE ByStrip<std::uint32_t> Unite(HashBytes plane_0, HashBytes plane_1, HashBytes plane_2,
                                        HashBytes plane_3) {
  const LaneTag<std::uint32_t> tag;
  const ByStrip<std::uint16_t> low = Unite(plane_0, plane_1);
  const ByStrip<std::uint16_t> high = Unite(plane_2, plane_3);
  return {hn::ZipLower(tag, low.at_0, high.at_0), hn::ZipUpper(tag, low.at_0, high.at_0),
          hn::ZipLower(tag, low.at_1, high.at_1), hn::ZipUpper(tag, low.at_1, high.at_1)};
}
// Of values whose bytes above these do not matter.
HWY_INLINE ByStrip<std::uint64_t> Unite(HashBytes plane_0, HashBytes plane_1, HashBytes plane_2,
                                        HashBytes plane_3, HashBytes plane_4, HashBytes plane_5) {
  const LaneTag<std::uint32_t> half_tag;
  const LaneTag<std::uint64_t> tag;
  const ByStrip<std::uint32_t> low = Unite(plane_0, plane_1, plane_2, plane_3);
  const ByStrip<std::uint16_t> words = Unite(plane_4, plane_5);
  const auto high_0 = hn::ZipLower(half_tag, words.at_0, words.at_0);
  const auto high_1 = hn::ZipUpper(half_tag, words.at_0, words.at_0);
  const auto high_2 = hn::ZipLower(half_tag, words.at_1, words.at_1);
  const auto high_3 = hn::ZipUpper(half_tag, words.at_1, words.at_1);
  return {hn::ZipLower(tag, low.at_0, high_0), hn::ZipUpper(tag, low.at_0, high_0),
          hn::ZipLower(tag, low.at_1, high_1), hn::ZipUpper(tag, low.at_1, high_1),
          hn::ZipLower(tag, low.at_2, high_2), hn::ZipUpper(tag, low.at_2, high_2),
          hn::ZipLower(tag, low.at_3, high_3), hn::ZipUpper(tag, low.at_3, high_3)};
}

// One byte further: 2 hash + value.
template <typename V>
HWY_INLINE V Roll(V hash, V value) {
  return hn::Add(hn::Add(hash, hash), value);
}

// The hash at the end of each strip: the sum over its last eight strips.
template <typename Lane>
HWY_INLINE LaneVector<Lane> HashStrips(LaneVector<Lane> strips_1, Carry<Lane>& carry) {
  constexpr int kBits = static_cast<int>(kStripBytes<Lane>);
  const auto strips_2 =
      hn::Add(strips_1, hn::ShiftLeft<kBits>(ShiftIn<1>(strips_1, carry.strips_1)));
  const auto strips_4 =
      hn::Add(strips_2, hn::ShiftLeft<2 * kBits>(ShiftIn<2>(strips_2, carry.strips_2)));
  const auto strips_8 =
      hn::Add(strips_4, hn::ShiftLeft<4 * kBits>(ShiftIn<4>(strips_4, carry.strips_4)));
  carry.strips_1 = strips_1;
  carry.strips_2 = strips_2;
  carry.strips_4 = strips_4;
  return strips_8;
}

// From values to hashes: lane j of register t is the hash that ends with byte j T + t.
HWY_INLINE ByStrip<std::uint16_t> HashValues(const ByStrip<std::uint16_t>& values,
                                             Carry<std::uint16_t>& carry) {
  const auto last = HashStrips<std::uint16_t>(Roll(values.at_0, values.at_1), carry);
  const auto before = ShiftIn<1>(last, carry.strips_8);
  carry.strips_8 = last;
  return {Roll(before, values.at_0), last};
}
HWY_INLINE ByStrip<std::uint32_t> HashValues(const ByStrip<std::uint32_t>& values,
                                             Carry<std::uint32_t>& carry) {
  const auto half = Roll(values.at_0, values.at_1);
  const auto strip = hn::Add(hn::ShiftLeft<2>(half), Roll(values.at_2, values.at_3));
  const auto last = HashStrips<std::uint32_t>(strip, carry);
  const auto before = ShiftIn<1>(last, carry.strips_8);
  carry.strips_8 = last;
  const auto second = hn::Add(hn::ShiftLeft<2>(before), half);
  return {Roll(before, values.at_0), second, Roll(second, values.at_2), last};
}
#if HWY_TARGET == HWY_AVX3_DL
HWY_INLINE ByStrip<std::uint64_t> HashValues(const ByStrip<std::uint64_t>& values,
                                             Carry<std::uint64_t>& carry) {
  // Of the first two, four and six bytes of each strip, and of its third and fourth and so on.
  const auto sum_01 = Roll(values.at_0, values.at_1);
  const auto sum_23 = Roll(values.at_2, values.at_3);
  const auto sum_45 = Roll(values.at_4, values.at_5);
  const auto sum_67 = Roll(values.at_6, values.at_7);
  const auto sum_03 = hn::Add(hn::ShiftLeft<2>(sum_01), sum_23);
  const auto sum_47 = hn::Add(hn::ShiftLeft<2>(sum_45), sum_67);
  const auto strips_1 = hn::Add(hn::ShiftLeft<4>(sum_03), sum_47);
  // Six strips are all the bytes that matter, and two steps wait less than three.
  const auto strips_2 = hn::Add(strips_1, hn::ShiftLeft<8>(ShiftIn<1>(strips_1, carry.strips_1)));
  const auto last =
      hn::Add(hn::Add(strips_2, hn::ShiftLeft<16>(ShiftIn<2>(strips_2, carry.strips_2))),
              hn::ShiftLeft<32>(ShiftIn<4>(strips_2, carry.strips_2)));
  carry.strips_1 = strips_1;
  carry.strips_2 = strips_2;
  const auto before = ShiftIn<1>(last, carry.strips_8);
  carry.strips_8 = last;
  const auto at_1 = hn::Add(hn::ShiftLeft<2>(before), sum_01);
  const auto at_3 = hn::Add(hn::ShiftLeft<4>(before), sum_03);
  const auto at_5 = hn::Add(hn::ShiftLeft<2>(at_3), sum_45);
  return {Roll(before, values.at_0), at_1, Roll(at_1, values.at_2), at_3,
          Roll(at_3, values.at_4),   at_5, Roll(at_5, values.at_6), last};
}
#endif

#if HWY_TARGET == HWY_AVX3_DL
// An 8 by 8 matrix over GF(2) for every byte, the operand of GF2P8AFFINEQB.
HWY_INLINE LaneVector<std::uint64_t> MatrixForAll(std::uint64_t matrix) {
  LaneVector<std::uint64_t> everywhere = hn::Set(LaneTag<std::uint64_t>(), matrix);
#if defined(__clang__)
  // From memory clang would broadcast it in that instruction itself, where clang 19 encodes small
  // displacements wrongly (LLVM change 120340 mends it).
  asm("" : "+v"(everywhere.raw));
#endif
  return everywhere;
}
#endif

// So far ahead of the vector at hand that memory answers in time: the processor's own prefetching
// ends with a page, and what it reads ahead by itself is too little by half. Any address will do.
inline constexpr std::size_t kPrefetchBytes = 3072;
HWY_INLINE void PrefetchAhead(const std::uint8_t* bytes) {
  __builtin_prefetch(bytes + kPrefetchBytes);
}

// The hashes of the next kHashVectorBytes bytes.
template <typename Table>
HWY_INLINE ByStrip<typename Table::Lane> HashVector(const Table& table, HashBytes bytes,
                                                    Carry<typename Table::Lane>& carry) {
  return HashValues(table.Values(GroupStrips<typename Table::Lane>(bytes)), carry);
}
// Of fewer: `bytes`[0, count), then zeros.
template <typename Table>
HWY_INLINE ByStrip<typename Table::Lane> HashTail(const Table& table, const std::uint8_t* bytes,
                                                  std::size_t count,
                                                  Carry<typename Table::Lane>& carry) {
  alignas(64) std::uint8_t padded[kHashVectorBytes] = {};
  std::memcpy(padded, bytes, count);
  return HashVector(table, hn::Load(HashByteTag(), padded), carry);
}

// The carry in front of `bytes`, before which `before` bytes can be read. Where a window reaches
// further back than that, the hash is not that of the rule.
template <typename Table>
HWY_INLINE Carry<typename Table::Lane> CarryBefore(const Table& table, const std::uint8_t* bytes,
                                                   std::size_t before) {
  using Lane = typename Table::Lane;
  constexpr std::size_t kBytes =
      kWindowBytes<Lane> < kHashVectorBytes ? kHashVectorBytes : kWindowBytes<Lane>;
  alignas(64) std::uint8_t padded[kBytes];
  const std::uint8_t* from = padded;
  if (HWY_LIKELY(before >= kBytes)) {
    from = bytes - kBytes;
  } else {
    std::memset(padded, 0, kBytes);
    std::memcpy(padded + kBytes - before, bytes - before, before);
  }
  Carry<Lane> carry;
  for (std::size_t index = 0; index < kBytes; index += kHashVectorBytes) {
    HashVector(table, hn::LoadU(HashByteTag(), from + index), carry);
  }
  return carry;
}

// Bit j of the result is lane j.
template <typename Tag>
HWY_INLINE std::uint64_t BitsOf(Tag tag, hn::Mask<Tag> mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(tag, mask, bytes);
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

// The first position at or behind `lowest` whose lane is set, given the masks of the registers in
// order; kHashVectorBytes if there is none.
template <typename Tag, typename... Masks>
HWY_INLINE std::size_t FirstPosition(Tag tag, std::size_t lowest, Masks... masks) {
  constexpr std::size_t kStrip = sizeof...(Masks);
  const std::uint64_t bits[kStrip] = {BitsOf(tag, masks)...};
  std::size_t first = kHashVectorBytes;
  for (std::size_t byte = 0; byte < kStrip; ++byte) {
    // Lanes of this register that stand before `lowest`.
    const std::size_t skipped = lowest <= byte ? 0 : (lowest - byte + kStrip - 1) / kStrip;
    const std::uint64_t left = skipped < 64 ? bits[byte] >> skipped << skipped : 0;
    if (left == 0) continue;
    const auto lane = static_cast<std::size_t>(__builtin_ctzll(left));
    const std::size_t position = lane * kStrip + byte;
    if (position < first) first = position;
  }
  return first;
}

// Bit p of the result is position p.
template <typename Tag, typename... Masks>
HWY_INLINE std::uint64_t AllPositions(Tag tag, Masks... masks) {
  constexpr std::size_t kStrip = sizeof...(Masks);
  const std::uint64_t bits[kStrip] = {BitsOf(tag, masks)...};
  std::uint64_t positions = 0;
  for (std::size_t byte = 0; byte < kStrip; ++byte) {
    for (std::uint64_t left = bits[byte]; left != 0; left &= left - 1) {
      const auto lane = static_cast<std::size_t>(__builtin_ctzll(left));
      positions |= std::uint64_t{1} << (lane * kStrip + byte);
    }
  }
  return positions;
}

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
