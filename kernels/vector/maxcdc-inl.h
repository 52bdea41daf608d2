// MaxCDC for one Highway target: a running maximum of hashes for each lane, with the number of the
// block it stands in; the place itself is looked for once, in that block.
#if defined(KERF_KERNELS_VECTOR_MAXCDC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_MAXCDC_INL_H_
#undef KERF_KERNELS_VECTOR_MAXCDC_INL_H_
#else
#define KERF_KERNELS_VECTOR_MAXCDC_INL_H_
#endif

#include <algorithm>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/vector/gear_table-inl.h"

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

class MaxCdcChunker final : public Chunker {
 public:
  explicit MaxCdcChunker(const Profile& profile)
      : min_bytes_(profile.min_bytes), max_bytes_(profile.max_bytes) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (bytes.size() <= min_bytes_) return bytes.size();
    // A cut at i is a hash that ends with byte i - 1. The first vector begins so much earlier that
    // the last one ends with the last byte; what stands before byte min - 1 in it does not count.
    const std::size_t lowest = min_bytes_ - 1;
    const std::size_t vectors = (size - lowest + kHashVectorBytes - 1) / kHashVectorBytes;
    const std::size_t start = size - vectors * kHashVectorBytes;
    const Best best = FindBest(bytes.data(), start, vectors, lowest);
    return Locate(bytes.data(), start, vectors, lowest, best) + 1;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  using Tag = LaneTag<std::uint32_t>;
  using Vector = LaneVector<std::uint32_t>;
  using Table = AffineTable<std::uint32_t>;

  // Vectors a block: so many share one comparison with the maxima so far.
  static constexpr std::size_t kBlockVectors = 4;

  struct Best {
    std::uint32_t hash;
    // The first in which it stands.
    std::size_t block;
  };

  // Zero, which is no larger than any hash, for the first `count` positions.
  static HWY_INLINE Vector Masked(Vector hashes, std::size_t count, std::uint32_t byte) {
    const Tag tag;
    const auto position = hn::Add(hn::ShiftLeft<2>(hn::Iota(tag, 0)), hn::Set(tag, byte));
    const auto before = hn::Lt(position, hn::Set(tag, static_cast<std::uint32_t>(count)));
    return hn::IfThenZeroElse(before, hashes);
  }

  static HWY_INLINE Vector Largest(const ByStrip<std::uint32_t>& hashes) {
    return hn::Max(hn::Max(hashes.at_0, hashes.at_1), hn::Max(hashes.at_2, hashes.at_3));
  }

  static HWY_INLINE Best FindBest(const std::uint8_t* bytes, std::size_t start, std::size_t vectors,
                                  std::size_t lowest) {
    const Tag tag;
    const Table table;
    auto carry = CarryBefore(table, bytes + start, start);
    const std::uint8_t* next = bytes + start;
    ByStrip<std::uint32_t> hashes = HashVector(table, hn::LoadU(HashByteTag(), next), carry);
    const std::size_t before = lowest - start;
    hashes = {Masked(hashes.at_0, before, 0), Masked(hashes.at_1, before, 1),
              Masked(hashes.at_2, before, 2), Masked(hashes.at_3, before, 3)};
    Vector largest = Largest(hashes);
    Vector blocks = hn::Zero(tag);
    std::size_t vector = 1;
    for (std::size_t block = 0; vector < vectors; ++block) {
      const std::size_t end = std::min(vectors, (block + 1) * kBlockVectors);
      Vector of_block = hn::Zero(tag);
      for (; vector < end; ++vector) {
        next += kHashVectorBytes;
        PrefetchAhead(next);
        hashes = HashVector(table, hn::LoadU(HashByteTag(), next), carry);
        of_block = hn::Max(of_block, Largest(hashes));
      }
      const auto larger = hn::Gt(of_block, largest);
      largest = hn::Max(of_block, largest);
      blocks = hn::IfThenElse(larger, hn::Set(tag, static_cast<std::uint32_t>(block)), blocks);
    }
    const Vector most = hn::MaxOfLanes(tag, largest);
    const Vector never = hn::Set(tag, UINT32_MAX);
    const Vector first = hn::IfThenElse(hn::Eq(largest, most), blocks, never);
    return {hn::GetLane(most), hn::GetLane(hn::MinOfLanes(tag, first))};
  }

  // The first byte with which the best hash ends.
  static HWY_INLINE std::size_t Locate(const std::uint8_t* bytes, std::size_t start,
                                       std::size_t vectors, std::size_t lowest, const Best& best) {
    const Tag tag;
    const Table table;
    const Vector wanted = hn::Set(tag, best.hash);
    std::size_t vector = best.block * kBlockVectors;
    const std::size_t block = start + vector * kHashVectorBytes;
    auto carry = CarryBefore(table, bytes + block, block);
    for (; vector < vectors; ++vector) {
      const std::size_t index = start + vector * kHashVectorBytes;
      const auto hashes = HashVector(table, hn::LoadU(HashByteTag(), bytes + index), carry);
      // A larger one may stand only before `lowest`.
      const auto largest = hn::Eq(Largest(hashes), wanted);
      if (index >= lowest && hn::AllFalse(tag, largest)) continue;
      const std::size_t first = FirstPosition(
          tag, lowest < index ? 0 : lowest - index, hn::Eq(hashes.at_0, wanted),
          hn::Eq(hashes.at_1, wanted), hn::Eq(hashes.at_2, wanted), hn::Eq(hashes.at_3, wanted));
      if (first < kHashVectorBytes) return index + first;
    }
    return start + vectors * kHashVectorBytes - 1;
  }

  std::size_t min_bytes_;
  std::size_t max_bytes_;
};

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
