// Gear and FastCDC for one Highway target: the first position whose hash has no bit of a mask.
#if defined(KERF_KERNELS_VECTOR_GEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_GEAR_INL_H_
#undef KERF_KERNELS_VECTOR_GEAR_INL_H_
#else
#define KERF_KERNELS_VECTOR_GEAR_INL_H_
#endif

#include <algorithm>
#include <bit>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/reference/fastcdc.h"
#include "kernels/vector/gear_table-inl.h"

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

// Some bits of 16-bit hashes, all of them at the top, so that the smallest of some hashes says
// whether one of them has none.
class TopBits {
 public:
  using Tag = LaneTag<std::uint16_t>;

  // `bound`: the smallest hash that has one of the bits.
  HWY_INLINE explicit TopBits(std::uint32_t bound)
      : last_(hn::Set(Tag(), static_cast<std::uint16_t>(bound - 1))) {}

  HWY_INLINE bool AnyWithout(const ByStrip<std::uint16_t>& hashes) const {
    return !hn::AllFalse(Tag(), Without(hn::Min(hashes.at_0, hashes.at_1)));
  }
  HWY_INLINE std::size_t First(const ByStrip<std::uint16_t>& hashes) const {
    return FirstPosition(Tag(), 0, Without(hashes.at_0), Without(hashes.at_1));
  }
  // Bit p is position p.
  HWY_INLINE std::uint64_t All(const ByStrip<std::uint16_t>& hashes) const {
    return AllPositions(Tag(), Without(hashes.at_0), Without(hashes.at_1));
  }

 private:
  HWY_INLINE hn::Mask<Tag> Without(LaneVector<std::uint16_t> hashes) const {
    return hn::Eq(hn::Min(hashes, last_), hashes);
  }

  LaneVector<std::uint16_t> last_;
};

class GearChunker final : public Chunker {
 public:
  explicit GearChunker(const Profile& profile)
      : bound_(GearBound(profile.avg_bytes)),
        min_bytes_(profile.min_bytes),
        max_bytes_(profile.max_bytes) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size <= min_bytes_) return size;
    const AffineTable<std::uint16_t> table;
    const TopBits bits(bound_);
    Carry<std::uint16_t> carry;
    std::size_t index = min_bytes_;
    for (; index + kHashVectorBytes <= size; index += kHashVectorBytes) {
      PrefetchAhead(bytes.data() + index);
      // If the cut is here, the next chunk's hashes begin there.
      PrefetchAhead(bytes.data() + index + min_bytes_);
      const auto vector = hn::LoadU(HashByteTag(), bytes.data() + index);
      const auto hashes = HashVector(table, vector, carry);
      if (HWY_UNLIKELY(bits.AnyWithout(hashes))) return index + bits.First(hashes);
    }
    if (index == size) return size;
    const auto hashes = HashTail(table, bytes.data() + index, size - index, carry);
    return std::min(size, index + bits.First(hashes));
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  std::uint32_t bound_;
  std::size_t min_bytes_;
  std::size_t max_bytes_;
};

#if HWY_TARGET == HWY_AVX3_DL

// A mask for each register of a vector's hashes.
class Masks {
 public:
  using Tag = LaneTag<std::uint32_t>;

  HWY_INLINE explicit Masks(std::uint32_t mask)
      : masks_{hn::Set(Tag(), mask), hn::Set(Tag(), mask), hn::Set(Tag(), mask),
               hn::Set(Tag(), mask)} {}
  // `strict` for the first `count` positions, `loose` behind them.
  HWY_INLINE Masks(std::uint32_t strict, std::uint32_t loose, std::size_t count)
      : masks_{Mixed(strict, loose, count, 0), Mixed(strict, loose, count, 1),
               Mixed(strict, loose, count, 2), Mixed(strict, loose, count, 3)} {}

  HWY_INLINE bool AnyWithout(const ByStrip<std::uint32_t>& hashes) const {
    const auto first =
        hn::Min(hn::And(hashes.at_0, masks_.at_0), hn::And(hashes.at_1, masks_.at_1));
    const auto last = hn::Min(hn::And(hashes.at_2, masks_.at_2), hn::And(hashes.at_3, masks_.at_3));
    return !hn::AllFalse(Tag(), hn::Eq(hn::Min(first, last), hn::Zero(Tag())));
  }
  HWY_INLINE std::size_t First(const ByStrip<std::uint32_t>& hashes) const {
    return FirstPosition(Tag(), 0, Without(hashes.at_0, masks_.at_0),
                         Without(hashes.at_1, masks_.at_1), Without(hashes.at_2, masks_.at_2),
                         Without(hashes.at_3, masks_.at_3));
  }
  // Bit p is position p.
  HWY_INLINE std::uint64_t All(const ByStrip<std::uint32_t>& hashes) const {
    return AllPositions(Tag(), Without(hashes.at_0, masks_.at_0), Without(hashes.at_1, masks_.at_1),
                        Without(hashes.at_2, masks_.at_2), Without(hashes.at_3, masks_.at_3));
  }

 private:
  static HWY_INLINE hn::Mask<Tag> Without(LaneVector<std::uint32_t> hashes,
                                          LaneVector<std::uint32_t> mask) {
    return hn::Eq(hn::And(hashes, mask), hn::Zero(Tag()));
  }
  static HWY_INLINE LaneVector<std::uint32_t> Mixed(std::uint32_t strict, std::uint32_t loose,
                                                    std::size_t count, std::uint32_t byte) {
    const Tag tag;
    const auto position = hn::Add(hn::ShiftLeft<2>(hn::Iota(tag, 0)), hn::Set(tag, byte));
    return hn::IfThenElse(hn::Lt(position, hn::Set(tag, static_cast<std::uint32_t>(count))),
                          hn::Set(tag, strict), hn::Set(tag, loose));
  }

  ByStrip<std::uint32_t> masks_;
};

inline WordTablePlanes MakeWordTablePlanes() {
  WordTablePlanes planes;
  for (std::size_t plane = 0; plane < planes.size(); ++plane) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      planes[plane][byte] = static_cast<std::uint8_t>(FastCdcGear()[byte] >> (8 * plane));
    }
  }
  return planes;
}

class FastCdcChunker final : public Chunker {
 public:
  explicit FastCdcChunker(const Profile& profile)
      : planes_(MakeWordTablePlanes()),
        min_bytes_(profile.min_bytes),
        avg_bytes_(profile.avg_bytes),
        max_bytes_(profile.max_bytes) {
    const std::uint32_t bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
    strict_ = FastCdcMask(bits + profile.level);
    loose_ = FastCdcMask(bits - profile.level);
  }

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size <= min_bytes_) return size;
    const std::size_t middle = std::min(avg_bytes_, size);
    const WordTable table(planes_);
    Carry<std::uint32_t> carry;
    std::size_t index = min_bytes_;
    const auto whole = [](std::size_t from, std::size_t to) {
      return from + (to - from) / kHashVectorBytes * kHashVectorBytes;
    };
    std::size_t stop = whole(index, middle);
    std::size_t cut = Scan(table, Masks(strict_), bytes.data(), index, stop, carry);
    if (cut != stop) return cut;
    index = stop;
    if (index < middle) {
      // The vector in which avg or the end lies.
      const Masks masks(strict_, loose_, avg_bytes_ - index);
      const std::size_t count = std::min(kHashVectorBytes, size - index);
      const auto hashes = HashTail(table, bytes.data() + index, count, carry);
      const std::size_t first = masks.First(hashes);
      if (first < count) return index + first;
      index += count;
    }
    stop = whole(index, size);
    cut = Scan(table, Masks(loose_), bytes.data(), index, stop, carry);
    if (cut != stop || stop == size) return cut;
    const auto hashes = HashTail(table, bytes.data() + stop, size - stop, carry);
    return std::min(size, stop + Masks(loose_).First(hashes));
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  // The first cut in [from, to), whole vectors, or `to`.
  static HWY_INLINE std::size_t Scan(const WordTable& table, const Masks& masks,
                                     const std::uint8_t* bytes, std::size_t from, std::size_t to,
                                     Carry<std::uint32_t>& carry) {
    for (std::size_t index = from; index < to; index += kHashVectorBytes) {
      PrefetchAhead(bytes + index);
      const auto hashes = HashVector(table, hn::LoadU(HashByteTag(), bytes + index), carry);
      if (HWY_UNLIKELY(masks.AnyWithout(hashes))) return index + masks.First(hashes);
    }
    return to;
  }

  WordTablePlanes planes_;
  std::uint32_t strict_;
  std::uint32_t loose_;
  std::size_t min_bytes_;
  std::size_t avg_bytes_;
  std::size_t max_bytes_;
};

#endif  // HWY_TARGET == HWY_AVX3_DL

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
