// The two primitives of VectorCDC (Udayashankar et al., FAST 2025, section 4) for one Highway
// target: extreme byte search and range scan. Lengths are any, also 0; nothing outside the given
// range is read.
//
// A per-target include: no ordinary guard.
#if defined(KERF_KERNELS_VECTOR_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_SCAN_INL_H_
#undef KERF_KERNELS_VECTOR_SCAN_INL_H_
#else
#define KERF_KERNELS_VECTOR_SCAN_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// No rule has a window or a minimum below 64 bytes, so that a vector of this tag fits each: a scan
// shorter than a vector is rare and may be slow.
using ByteTag = hn::CappedTag<std::uint8_t, 64>;
using ByteVector = hn::Vec<ByteTag>;
inline constexpr ByteTag kBytes;

// What a rule looks for: bytes that stand in this relation to a given one. Each has the scalar test
// and the vector test.
struct GreaterThan {
  static bool Test(std::uint8_t byte, std::uint8_t bound) { return byte > bound; }
  static HWY_INLINE hn::Mask<ByteTag> Test(ByteVector bytes, ByteVector bound) {
    return hn::Gt(bytes, bound);
  }
};
struct AtLeast {
  static bool Test(std::uint8_t byte, std::uint8_t bound) { return byte >= bound; }
  static HWY_INLINE hn::Mask<ByteTag> Test(ByteVector bytes, ByteVector bound) {
    return hn::Eq(hn::Max(bytes, bound), bytes);
  }
};
struct LessThan {
  static bool Test(std::uint8_t byte, std::uint8_t bound) { return byte < bound; }
  static HWY_INLINE hn::Mask<ByteTag> Test(ByteVector bytes, ByteVector bound) {
    return hn::Lt(bytes, bound);
  }
};
struct AtMost {
  static bool Test(std::uint8_t byte, std::uint8_t bound) { return byte <= bound; }
  static HWY_INLINE hn::Mask<ByteTag> Test(ByteVector bytes, ByteVector bound) {
    return hn::Eq(hn::Min(bytes, bound), bytes);
  }
};
struct EqualTo {
  static bool Test(std::uint8_t byte, std::uint8_t bound) { return byte == bound; }
  static HWY_INLINE hn::Mask<ByteTag> Test(ByteVector bytes, ByteVector bound) {
    return hn::Eq(bytes, bound);
  }
};

// Range scan: the first position in [from, to) whose byte passes the test, or `to`.
template <typename Relation>
HWY_INLINE std::size_t FindFirst(const std::uint8_t* bytes, std::size_t from, std::size_t to,
                                 std::uint8_t bound) {
  const std::size_t lanes = hn::Lanes(kBytes);
  const ByteVector bounds = hn::Set(kBytes, bound);
  std::size_t index = from;
  for (; index + lanes <= to; index += lanes) {
    const auto hits = Relation::Test(hn::LoadU(kBytes, bytes + index), bounds);
    const std::intptr_t first = hn::FindFirstTrue(kBytes, hits);
    if (first >= 0) return index + static_cast<std::size_t>(first);
  }
  if (index == to) return to;
  if (to - from >= lanes) {
    // The last whole vector; what it shares with the one before has no hit.
    const std::size_t start = to - lanes;
    const auto hits = Relation::Test(hn::LoadU(kBytes, bytes + start), bounds);
    const std::intptr_t first = hn::FindFirstTrue(kBytes, hits);
    return first >= 0 ? start + static_cast<std::size_t>(first) : to;
  }
  for (; index < to; ++index) {
    if (Relation::Test(bytes[index], bound)) return index;
  }
  return to;
}

// The largest lane.
HWY_INLINE std::uint8_t MaxOfBytes(ByteVector vector) {
  alignas(64) std::uint8_t lanes[64];
  hn::Store(vector, kBytes, lanes);
  const hn::CappedTag<std::uint8_t, 16> narrow;
  auto most = hn::Load(narrow, lanes);
  for (std::size_t index = hn::Lanes(narrow); index < hn::Lanes(kBytes);
       index += hn::Lanes(narrow)) {
    most = hn::Max(most, hn::Load(narrow, lanes + index));
  }
  hn::Store(most, narrow, lanes);
  std::uint8_t largest = lanes[0];
  for (std::size_t index = 1; index < hn::Lanes(narrow); ++index) {
    largest = largest < lanes[index] ? lanes[index] : largest;
  }
  return largest;
}

// Extreme byte search: the largest of bytes[from, to), which is not empty. Four accumulators, so
// that loads, not the chain of maxima, are the limit.
HWY_INLINE std::uint8_t MaxByte(const std::uint8_t* bytes, std::size_t from, std::size_t to) {
  const std::size_t lanes = hn::Lanes(kBytes);
  if (to - from < lanes) {
    std::uint8_t largest = bytes[from];
    for (std::size_t index = from + 1; index < to; ++index) {
      largest = largest < bytes[index] ? bytes[index] : largest;
    }
    return largest;
  }
  // The last vector may overlap the others: a maximum does not mind.
  ByteVector most_0 = hn::LoadU(kBytes, bytes + to - lanes);
  ByteVector most_1 = most_0;
  ByteVector most_2 = most_0;
  ByteVector most_3 = most_0;
  std::size_t index = from;
  for (; index + 4 * lanes <= to; index += 4 * lanes) {
    most_0 = hn::Max(most_0, hn::LoadU(kBytes, bytes + index));
    most_1 = hn::Max(most_1, hn::LoadU(kBytes, bytes + index + lanes));
    most_2 = hn::Max(most_2, hn::LoadU(kBytes, bytes + index + 2 * lanes));
    most_3 = hn::Max(most_3, hn::LoadU(kBytes, bytes + index + 3 * lanes));
  }
  for (; index + lanes <= to; index += lanes) {
    most_0 = hn::Max(most_0, hn::LoadU(kBytes, bytes + index));
  }
  return MaxOfBytes(hn::Max(hn::Max(most_0, most_1), hn::Max(most_2, most_3)));
}

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
