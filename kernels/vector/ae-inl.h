// AE for one Highway target. Three facts make it fast:
// - a byte beyond 255 (below 0) there is not: the cut is a window behind the first of them, and
//   nothing in between is read;
// - no window can end in a block of bytes that comes after the extreme's own and is not longer than
//   the window: after the block the extreme is the block's, if that is beyond the old one, at its
//   first occurrence;
// - a chunk has at most 255 extremes, mostly in its first few hundred bytes.
#if defined(KERF_KERNELS_VECTOR_AE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_AE_INL_H_
#undef KERF_KERNELS_VECTOR_AE_INL_H_
#else
#define KERF_KERNELS_VECTOR_AE_INL_H_
#endif

#include <algorithm>
#include <span>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/vector/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

// `Beyond` is GreaterThan for AE-Max, LessThan for AE-Min; `kLast` the byte that none is beyond.
template <typename Beyond, std::uint8_t kLast>
class AeChunker final : public Chunker {
 public:
  explicit AeChunker(const Profile& profile)
      : window_bytes_(profile.window_bytes), max_bytes_(profile.max_bytes) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    // Here the next chunk begins, or a little later, often without anything read in between.
    PrefetchBlocks(bytes.data() + window_bytes_, kNextChunkBlocks);
    Extreme extreme{bytes[0], 0, 1};
    while (extreme.position + window_bytes_ < size) {
      const std::size_t cut = extreme.position + window_bytes_;
      if (extreme.byte == kLast || !MoveExtreme(bytes.data(), cut + 1, extreme)) return cut;
    }
    return size;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  static constexpr std::size_t kNextChunkBlocks = 8;

  struct Extreme {
    std::uint8_t byte;
    std::size_t position;
    // No byte in front of this one is beyond the extreme.
    std::size_t scanned;
  };

  // Reads on to the next stride or block of bytes[scanned, end) with a byte beyond the extreme, and
  // past it. False if there is none. `end` is the end of the extreme's window.
  static HWY_INLINE bool MoveExtreme(const std::uint8_t* bytes, std::size_t end, Extreme& extreme) {
    const ByteVector bounds = hn::Set(kBytes, extreme.byte);
    std::size_t index = extreme.scanned;
    for (; index + kStrideBytes <= end; index += kStrideBytes) {
      PrefetchStride(bytes + index + kPrefetchBytes);
      const ByteVector strongest = StrongestOfStride<Beyond>(bytes + index);
      if (hn::AllFalse(kBytes, Beyond::Test(strongest, bounds))) continue;
      extreme.byte = StrongestLane<Beyond>(kBytes, strongest);
      extreme.position =
          index + FirstOfStride<EqualTo>(bytes + index, hn::Set(kBytes, extreme.byte));
      extreme.scanned = index + kStrideBytes;
      return true;
    }
    while (index < end) {
      // The last block overlaps what has no byte beyond the extreme; it begins behind the extreme,
      // because the window is not shorter than a block.
      index = std::min(index, end - kBlockBytes);
      const ByteVector strongest = StrongestOfBlock<Beyond>(bytes + index);
      if (!hn::AllFalse(kBytes, Beyond::Test(strongest, bounds))) {
        extreme.byte = StrongestLane<Beyond>(kBytes, strongest);
        const std::uint64_t bits = BlockBits<EqualTo>(bytes + index, hn::Set(kBytes, extreme.byte));
        extreme.position = index + static_cast<std::size_t>(std::countr_zero(bits));
        extreme.scanned = index + kBlockBytes;
        return true;
      }
      index += kBlockBytes;
    }
    return false;
  }

  std::size_t window_bytes_;
  std::size_t max_bytes_;
};

using AeMaxChunker = AeChunker<GreaterThan, 255>;
using AeMinChunker = AeChunker<LessThan, 0>;

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
