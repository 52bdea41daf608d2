// FastCDC and its field variant of 2020 for one Highway target: the first position whose hash has
// no bit of a mask. Their tables have no structure: only where byte permutes hold them in
// registers.
#if defined(KERF_KERNELS_VECTOR_FASTCDC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_FASTCDC_INL_H_
#undef KERF_KERNELS_VECTOR_FASTCDC_INL_H_
#else
#define KERF_KERNELS_VECTOR_FASTCDC_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <memory>
#include <span>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/reference/fastcdc.h"
#include "kernels/reference/fastcdc2020.h"
#include "kernels/vector/gear_table-inl.h"

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_DL

// Which hashes of a vector have none of some bits.
template <typename Lane>
class NoBits {
 public:
  using Tag = LaneTag<Lane>;
  using Vector = LaneVector<Lane>;

  HWY_INLINE explicit NoBits(Lane mask) : mask_(hn::Set(Tag(), mask)) {}

  HWY_INLINE bool AnyWithout(const ByStrip<Lane>& hashes) const {
    Vector least = Least(hashes.at_0, hashes.at_1, hashes.at_2, hashes.at_3);
    if constexpr (sizeof(Lane) == 8) {
      least = hn::Min(least, Least(hashes.at_4, hashes.at_5, hashes.at_6, hashes.at_7));
    }
    return !hn::AllFalse(Tag(), hn::Eq(least, hn::Zero(Tag())));
  }
  // The first position at or behind `lowest`; kHashVectorBytes if there is none.
  HWY_INLINE std::size_t First(const ByStrip<Lane>& hashes, std::size_t lowest = 0) const {
    if constexpr (sizeof(Lane) == 4) {
      return FirstPosition(Tag(), lowest, Without(hashes.at_0), Without(hashes.at_1),
                           Without(hashes.at_2), Without(hashes.at_3));
    } else {
      return FirstPosition(Tag(), lowest, Without(hashes.at_0), Without(hashes.at_1),
                           Without(hashes.at_2), Without(hashes.at_3), Without(hashes.at_4),
                           Without(hashes.at_5), Without(hashes.at_6), Without(hashes.at_7));
    }
  }
  // Bit p is position p.
  HWY_INLINE std::uint64_t All(const ByStrip<std::uint32_t>& hashes) const {
    return AllPositions(Tag(), Without(hashes.at_0), Without(hashes.at_1), Without(hashes.at_2),
                        Without(hashes.at_3));
  }

 private:
  HWY_INLINE Vector Least(Vector a, Vector b, Vector c, Vector d) const {
    return hn::Min(hn::Min(hn::And(a, mask_), hn::And(b, mask_)),
                   hn::Min(hn::And(c, mask_), hn::And(d, mask_)));
  }
  HWY_INLINE hn::Mask<Tag> Without(Vector hashes) const {
    return hn::Eq(hn::And(hashes, mask_), hn::Zero(Tag()));
  }

  Vector mask_;
};

// Lane: that of the variant's hash.
template <typename Lane>
class FastCdcChunker final : public Chunker {
 public:
  // `unit`: 2 where the last byte of an odd size is not looked at, else 1.
  FastCdcChunker(const Profile& profile, std::span<const Lane, 256> words, Lane strict, Lane loose,
                 std::size_t unit)
      : planes_(MakeWordTablePlanes(words)),
        strict_(strict),
        loose_(loose),
        unit_(unit),
        min_bytes_(profile.min_bytes),
        avg_bytes_(profile.avg_bytes),
        max_bytes_(profile.max_bytes) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size <= min_bytes_) return size;
    const std::size_t end = size - size % unit_;
    const std::size_t cut = FirstWithout(bytes.data(), end);
    return cut == end ? size : cut;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  // The first cut in front of `end`, or that.
  HWY_INLINE std::size_t FirstWithout(const std::uint8_t* bytes, std::size_t end) const {
    const WordTable<Lane> table(planes_);
    const NoBits<Lane> strict(strict_);
    const NoBits<Lane> loose(loose_);
    Carry<Lane> carry;
    std::size_t index = min_bytes_;
    const auto whole = [](std::size_t from, std::size_t to) {
      return from + (to - from) / kHashVectorBytes * kHashVectorBytes;
    };
    const std::size_t middle = std::min(avg_bytes_, end);
    std::size_t stop = whole(index, middle);
    std::size_t cut = Scan(table, strict, bytes, index, stop, carry);
    if (cut != stop) return cut;
    index = stop;
    if (index < middle) {
      // The vector in which avg or the end lies.
      const std::size_t count = std::min(kHashVectorBytes, end - index);
      const auto hashes = HashTail(table, bytes + index, count, carry);
      std::size_t first = strict.First(hashes);
      if (first >= avg_bytes_ - index) first = loose.First(hashes, avg_bytes_ - index);
      if (first < count) return index + first;
      index += count;
    }
    stop = whole(index, end);
    cut = Scan(table, loose, bytes, index, stop, carry);
    if (cut != stop || stop == end) return cut;
    const auto hashes = HashTail(table, bytes + stop, end - stop, carry);
    return std::min(end, stop + loose.First(hashes));
  }

  // Of the next kHashVectorBytes bytes. No lambda: clang would compile that without GFNI.
  static HWY_INLINE auto LookupAt(const WordTable<Lane>& table, const std::uint8_t* bytes) {
    return table.Lookup(GroupStrips<Lane>(hn::LoadU(HashByteTag(), bytes)));
  }

  // The first cut in [from, to), whole vectors, or `to`. The next vector is looked up before this
  // one is hashed, so that neither waits for the other.
  static HWY_INLINE std::size_t Scan(const WordTable<Lane>& table, const NoBits<Lane>& bits,
                                     const std::uint8_t* bytes, std::size_t from, std::size_t to,
                                     Carry<Lane>& carry) {
    if (from == to) return to;
    auto planes = LookupAt(table, bytes + from);
    for (std::size_t index = from; index < to; index += kHashVectorBytes) {
      PrefetchAhead(bytes + index);
      const std::size_t next = index + kHashVectorBytes;
      const auto next_planes = LookupAt(table, bytes + (next < to ? next : index));
      const auto hashes = HashValues(table.ValuesOf(planes), carry);
      if (HWY_UNLIKELY(bits.AnyWithout(hashes))) return index + bits.First(hashes);
      planes = next_planes;
    }
    return to;
  }

  WordTablePlanes<Lane> planes_;
  Lane strict_;
  Lane loose_;
  std::size_t unit_;
  std::size_t min_bytes_;
  std::size_t avg_bytes_;
  std::size_t max_bytes_;
};

inline std::unique_ptr<Chunker> MakeFastCdcChunker(const Profile& profile) {
  const std::uint32_t bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
  const std::uint32_t strict = bits + profile.level;
  const std::uint32_t loose = bits - profile.level;
  if (profile.algorithm == Algorithm::kFastCdc) {
    return std::make_unique<FastCdcChunker<std::uint32_t>>(
        profile, FastCdcGear(), FastCdcMask(strict), FastCdcMask(loose), 1);
  }
  return std::make_unique<FastCdcChunker<std::uint64_t>>(
      profile, FastCdc2020Gear(), FastCdc2020Mask(strict), FastCdc2020Mask(loose), 2);
}

#endif  // HWY_TARGET == HWY_AVX3_DL

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
