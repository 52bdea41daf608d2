// Gear for one Highway target: the first position whose hash has none of the highest bits.
#if defined(KERF_KERNELS_VECTOR_GEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_GEAR_INL_H_
#undef KERF_KERNELS_VECTOR_GEAR_INL_H_
#else
#define KERF_KERNELS_VECTOR_GEAR_INL_H_
#endif

#include <algorithm>

#include "kernels/chunker.h"
#include "kernels/profile.h"
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

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
