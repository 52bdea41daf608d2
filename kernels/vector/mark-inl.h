// Stage 1 of two-stage chunking (kernels/twostage) for one Highway target: the hashes of
// gear-inl.h, tested at every position.
#if defined(KERF_KERNELS_VECTOR_MARK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_MARK_INL_H_
#undef KERF_KERNELS_VECTOR_MARK_INL_H_
#else
#define KERF_KERNELS_VECTOR_MARK_INL_H_
#endif

#include <algorithm>

#include "kernels/twostage/mark.h"
#include "kernels/vector/fastcdc-inl.h"
#include "kernels/vector/gear-inl.h"

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

// Calls `take(start, hashes)` for each vector of the positions [from, to), in order; `take` is for
// this target. What lies behind `to` is as if it were zero.
template <typename Table, typename Take>
HWY_INLINE void ForEachVector(const Table& table, std::span<const std::uint8_t> bytes,
                              std::size_t from, std::size_t to, Take& take) {
  Carry<typename Table::Lane> carry;
  if (from != 0) carry = CarryBefore(table, bytes.data() + from, from);
  std::size_t index = from;
  for (; index + kHashVectorBytes <= to; index += kHashVectorBytes) {
    PrefetchAhead(bytes.data() + index);
    take(index, HashVector(table, hn::LoadU(HashByteTag(), bytes.data() + index), carry));
  }
  if (index < to) take(index, HashTail(table, bytes.data() + index, to - index, carry));
}

// Collects the marks of a word's vectors.
template <typename Tests>
class MarkWriter {
 public:
  // For positions from `from` on, which begins a word.
  HWY_INLINE MarkWriter(const Tests& strict, const Tests& loose, const MarkWords& marks,
                        std::size_t from)
      : strict_(strict),
        loose_(loose),
        marks_(marks),
        next_word_(from / kWordPositions % marks.loose.size()) {}

  template <typename Hashes>
  HWY_INLINE void operator()(std::size_t start, const Hashes& hashes) {
    const std::size_t bit = start % kWordPositions;
    if (bit == 0) {
      word_ = next_word_;
      next_word_ = word_ + 1 == marks_.loose.size() ? 0 : word_ + 1;
      marks_.loose[word_] = marks_.strict[word_] = 0;
    }
    if (HWY_LIKELY(!loose_.AnyWithout(hashes))) return;
    marks_.loose[word_] |= loose_.All(hashes) << bit;
    marks_.strict[word_] |= strict_.All(hashes) << bit;
  }

 private:
  const Tests& strict_;
  const Tests& loose_;
  const MarkWords marks_;
  std::size_t word_ = 0;
  std::size_t next_word_;
};

// Marks of zeros behind the end are no marks.
inline void ClearBehind(std::size_t end, const MarkWords& marks) {
  if (end % kWordPositions == 0) return;
  const std::size_t word = end / kWordPositions % marks.loose.size();
  const std::uint64_t kept = (std::uint64_t{1} << end % kWordPositions) - 1;
  marks.loose[word] &= kept;
  marks.strict[word] &= kept;
}

class GearMarker final : public Marker {
 public:
  explicit GearMarker(const Profile& profile) : bound_(GearBound(profile.avg_bytes)) {}

  void Mark(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to,
            const MarkWords& marks) const override {
    const AffineTable<std::uint16_t> table;
    const TopBits test(bound_);
    MarkWriter writer(test, test, marks, from);
    ForEachVector(table, bytes, from, to, writer);
    ClearBehind(to, marks);
  }

 private:
  std::uint32_t bound_;
};

#if HWY_TARGET == HWY_AVX3_DL
class FastCdcMarker final : public Marker {
 public:
  explicit FastCdcMarker(const GearRule& rule)
      : planes_(MakeWordTablePlanes(FastCdcGear())),
        strict_(rule.strict_mask),
        loose_(rule.loose_mask) {}

  void Mark(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to,
            const MarkWords& marks) const override {
    const WordTable<std::uint32_t> table(planes_);
    const NoBits<std::uint32_t> strict(strict_);
    const NoBits<std::uint32_t> loose(loose_);
    MarkWriter writer(strict, loose, marks, from);
    ForEachVector(table, bytes, from, to, writer);
    ClearBehind(to, marks);
  }

 private:
  WordTablePlanes<std::uint32_t> planes_;
  std::uint32_t strict_;
  std::uint32_t loose_;
};
#endif  // HWY_TARGET == HWY_AVX3_DL

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
