// The tables of gear hashes in registers, for one Highway target.
#if defined(KERF_KERNELS_VECTOR_GEAR_TABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_GEAR_TABLE_INL_H_
#undef KERF_KERNELS_VECTOR_GEAR_TABLE_INL_H_
#else
#define KERF_KERNELS_VECTOR_GEAR_TABLE_INL_H_
#endif

#include <array>
#include <span>

#include "kernels/reference/gear.h"
#include "kernels/vector/strips-inl.h"

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_DL

// One plane of bytes of the affine table: a matrix product over GF(2), plus a constant.
template <int kPlane>
class AffinePlane {
 public:
  HWY_INLINE AffinePlane() : matrix_(MatrixForAll(Matrix())) {}

  HWY_INLINE HashBytes Values(HashBytes bytes) const {
    return HashBytes{_mm512_gf2p8affine_epi64_epi8(
        bytes.raw, matrix_.raw, static_cast<int>(kGearWords[8] >> (8 * kPlane) & 0xFF))};
  }

 private:
  // Row i, which makes bit i, is byte 7 - i.
  static constexpr std::uint64_t Matrix() {
    std::uint64_t matrix = 0;
    for (int bit = 0; bit < 8; ++bit) {
      for (std::size_t input = 0; input < 8; ++input) {
        const std::uint64_t one = kGearWords[input] >> (8 * kPlane + bit) & 1;
        matrix |= one << (8 * (7 - bit) + static_cast<int>(input));
      }
    }
    return matrix;
  }

  hn::Vec<LaneTag<std::uint64_t>> matrix_;
};

// Nothing to prepare.
class AffineIndex {
 public:
  HWY_INLINE explicit AffineIndex(HashBytes all_bytes) : bytes(all_bytes) {}
  HashBytes bytes;
};

#else

struct NibbleTables {
  alignas(16) std::uint8_t low[16];
  alignas(16) std::uint8_t high[16];
};

constexpr NibbleTables MakeNibbleTables(int plane) {
  NibbleTables tables{};
  for (std::size_t nibble = 0; nibble < 16; ++nibble) {
    const std::uint32_t low = kGearTable[nibble];
    const std::uint32_t high = kGearTable[nibble << 4] ^ kGearTable[0];
    tables.low[nibble] = static_cast<std::uint8_t>(low >> (8 * plane));
    tables.high[nibble] = static_cast<std::uint8_t>(high >> (8 * plane));
  }
  return tables;
}

// Both nibbles of each byte.
class AffineIndex {
 public:
  HWY_INLINE explicit AffineIndex(HashBytes bytes)
      : low(hn::And(bytes, hn::Set(HashByteTag(), 0x0F))), high(hn::ShiftRight<4>(bytes)) {}
  HashBytes low;
  HashBytes high;
};

// One plane of bytes of the affine table: two lookups of a nibble.
template <int kPlane>
class AffinePlane {
 public:
  HWY_INLINE AffinePlane()
      : low_(hn::LoadDup128(HashByteTag(), kTables.low)),
        high_(hn::LoadDup128(HashByteTag(), kTables.high)) {}

  HWY_INLINE HashBytes Values(const AffineIndex& index) const {
    return hn::Xor(hn::TableLookupBytes(low_, index.low), hn::TableLookupBytes(high_, index.high));
  }

 private:
  static constexpr NibbleTables kTables = MakeNibbleTables(kPlane);

  HashBytes low_;
  HashBytes high_;
};

#endif  // HWY_TARGET == HWY_AVX3_DL

// The table of gear and maxcdc.
template <typename LaneType>
class AffineTable {
 public:
  using Lane = LaneType;

  HWY_INLINE AffineTable() {}

  HWY_INLINE ByStrip<Lane> Values(HashBytes bytes) const {
    const AffineIndex index(bytes);
    if constexpr (sizeof(Lane) == 2) {
      return Unite(Plane(plane_0_, index), Plane(plane_1_, index));
    } else {
      return Unite(Plane(plane_0_, index), Plane(plane_1_, index), Plane(plane_2_, index),
                   Plane(plane_3_, index));
    }
  }

 private:
  template <typename PlaneType>
  static HWY_INLINE HashBytes Plane(const PlaneType& plane, const AffineIndex& index) {
#if HWY_TARGET == HWY_AVX3_DL
    return plane.Values(index.bytes);
#else
    return plane.Values(index);
#endif
  }

  AffinePlane<0> plane_0_;
  AffinePlane<1> plane_1_;
  AffinePlane<2> plane_2_;
  AffinePlane<3> plane_3_;
};

// A table without structure, of 256 words, needs byte permutes of two registers; without them it
// would be 16 lookups of a nibble a plane, and the scalar form is faster.
#if HWY_TARGET == HWY_AVX3_DL

// How many bytes of its words matter: no mask of fastcdc2020 has bits above the 48th.
template <typename Lane>
inline constexpr std::size_t kTablePlanes = sizeof(Lane) == 8 ? 6 : sizeof(Lane);

// The bytes of the words: plane by plane, each of 256.
template <typename Lane>
using WordTablePlanes = std::array<std::array<std::uint8_t, 256>, kTablePlanes<Lane>>;

template <typename Lane>
inline WordTablePlanes<Lane> MakeWordTablePlanes(std::span<const Lane, 256> words) {
  WordTablePlanes<Lane> planes;
  for (std::size_t plane = 0; plane < planes.size(); ++plane) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      planes[plane][byte] = static_cast<std::uint8_t>(words[byte] >> (8 * plane));
    }
  }
  return planes;
}

template <typename LaneType>
class WordTable {
 public:
  using Lane = LaneType;

  HWY_INLINE explicit WordTable(const WordTablePlanes<Lane>& planes) : planes_(planes) {}

  // Bytes of values, as many planes as the table has.
  struct Planes {
    HashBytes at_0, at_1, at_2, at_3, at_4, at_5;
  };
  HWY_INLINE Planes Lookup(HashBytes bytes) const {
    // The other seven bits are the index of a permute.
    const __mmask64 upper_half = _mm512_movepi8_mask(bytes.raw);
    Planes planes{Plane<0>(bytes, upper_half),
                  Plane<1>(bytes, upper_half),
                  Plane<2>(bytes, upper_half),
                  Plane<3>(bytes, upper_half),
                  bytes,
                  bytes};
    if constexpr (kTablePlanes<Lane> == 6) {
      planes.at_4 = Plane<4>(bytes, upper_half);
      planes.at_5 = Plane<5>(bytes, upper_half);
    }
    return planes;
  }
  static HWY_INLINE ByStrip<Lane> ValuesOf(const Planes& planes) {
    if constexpr (kTablePlanes<Lane> == 6) {
      return Unite(planes.at_0, planes.at_1, planes.at_2, planes.at_3, planes.at_4, planes.at_5);
    } else {
      return Unite(planes.at_0, planes.at_1, planes.at_2, planes.at_3);
    }
  }
  HWY_INLINE ByStrip<Lane> Values(HashBytes bytes) const { return ValuesOf(Lookup(bytes)); }

 private:
  template <std::size_t kPlane>
  HWY_INLINE HashBytes Plane(HashBytes bytes, __mmask64 upper_half) const {
    const std::uint8_t* const plane = planes_[kPlane].data();
    const __m512i lower = _mm512_permutex2var_epi8(_mm512_loadu_si512(plane), bytes.raw,
                                                   _mm512_loadu_si512(plane + 64));
    const __m512i upper = _mm512_permutex2var_epi8(_mm512_loadu_si512(plane + 128), bytes.raw,
                                                   _mm512_loadu_si512(plane + 192));
    return HashBytes{_mm512_mask_blend_epi8(upper_half, lower, upper)};
  }

  const WordTablePlanes<Lane>& planes_;
};
#endif  // HWY_TARGET == HWY_AVX3_DL

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
