// CRC, Rabin and TTTD on the hashes of linear-inl.h, and the marks of the first two, for one
// Highway target.
#if defined(KERF_KERNELS_VECTOR_LINEAR_CHUNKERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_LINEAR_CHUNKERS_INL_H_
#undef KERF_KERNELS_VECTOR_LINEAR_CHUNKERS_INL_H_
#else
#define KERF_KERNELS_VECTOR_LINEAR_CHUNKERS_INL_H_
#endif

#include <algorithm>
#include <span>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/reference/rabin.h"
#include "kernels/twostage/mark.h"
#include "kernels/vector/linear-inl.h"

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

// What the low bits of the digest, masked, are in the planes of each hash.
inline std::uint32_t CrcPlaneMask(std::uint32_t bits) { return (std::uint32_t{1} << bits) - 1; }
inline std::uint32_t RabinPlaneMask(std::uint32_t divisor) {
  return (divisor - 1) << kRabinPlaneShift;
}
static_assert(kMaxCrcBits <= 8 * LinearMasks::kTestedPlanes);
static_assert((std::uint64_t{kMaxAvgBytes} << kRabinPlaneShift) <=
              std::uint64_t{1} << 8 * LinearMasks::kTestedPlanes);

// The marks of word `index` of a block that begins at `start` that lie in [from, to).
inline std::uint64_t MarksWithin(std::uint64_t word, std::size_t start, std::size_t from,
                                 std::size_t to) {
  if (start < from) {
    if (from - start >= kWordPositions) return 0;
    word &= ~std::uint64_t{0} << (from - start);
  }
  if (to < start + kWordPositions) {
    if (to <= start) return 0;
    word &= ~std::uint64_t{0} >> (start + kWordPositions - to);
  }
  return word;
}

// The first position in [from, to) that is marked, or `to`. At least the window is before `from`.
template <typename Strips>
HWY_INLINE std::size_t FirstMarked(std::span<const std::uint8_t> bytes, std::size_t from,
                                   std::size_t to, std::uint32_t mask) {
  const LinearMasks masks(mask, mask);
  std::size_t first = to;
  ForMarkedBlocks<Strips, false>(
      bytes, from - Strips::kWindowStrips * kLinearStripBytes, to, masks,
      [&](std::size_t start, const BlockMarks& marks) {
        for (const std::uint64_t loose : marks.loose) {
          if (const std::uint64_t word = MarksWithin(loose, start, from, to); word != 0) {
            first = start + static_cast<std::size_t>(__builtin_ctzll(word));
            return true;
          }
          start += kWordPositions;
        }
        return false;
      });
  return first;
}

class CrcChunker final : public Chunker {
 public:
  explicit CrcChunker(const Profile& profile)
      : min_bytes_(profile.min_bytes),
        max_bytes_(profile.max_bytes),
        mask_(CrcPlaneMask(profile.mask_bits)) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size <= min_bytes_) return size;
    return FirstMarked<CrcStrips>(bytes, min_bytes_, size, mask_);
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  std::size_t min_bytes_;
  std::size_t max_bytes_;
  std::uint32_t mask_;
};

class RabinChunker final : public Chunker {
 public:
  explicit RabinChunker(const Profile& profile)
      : min_bytes_(profile.min_bytes),
        max_bytes_(profile.max_bytes),
        mask_(RabinPlaneMask(profile.avg_bytes)) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size <= min_bytes_) return size;
    // The byte that makes a cut belongs to the chunk. The one before min is looked at by itself.
    RabinRoll roll;
    for (std::size_t index = min_bytes_ - kRabinWindowBytes; index < min_bytes_; ++index) {
      roll.Slide(bytes[index]);
    }
    if ((roll.digest() << kRabinPlaneShift & mask_) == 0) return min_bytes_;
    const std::size_t index = FirstMarked<RabinStrips>(bytes, min_bytes_, size, mask_);
    return index == size ? size : index + 1;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  std::size_t min_bytes_;
  std::size_t max_bytes_;
  std::uint32_t mask_;
};

class TttdChunker final : public Chunker {
 public:
  explicit TttdChunker(const Profile& profile)
      : min_bytes_(profile.min_bytes),
        max_bytes_(profile.max_bytes),
        mask_(RabinPlaneMask(profile.avg_bytes)),
        backup_mask_(RabinPlaneMask(profile.avg_bytes / 2)) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size <= min_bytes_) return size;
    // The hash begins at min; until it has seen a whole window it is the rule's alone.
    std::size_t backup = 0;
    const std::size_t seen = std::min(size, min_bytes_ + kRabinWindowBytes);
    RabinRoll roll;
    for (std::size_t index = min_bytes_; index < seen; ++index) {
      roll.Slide(bytes[index]);
      const std::uint64_t planes = roll.digest() << kRabinPlaneShift;
      if ((planes & mask_) == 0) return index;
      if ((planes & backup_mask_) == 0) backup = index;
    }
    if (seen == size) return backup != 0 ? backup : size;
    std::size_t cut = size;
    const LinearMasks masks(mask_, backup_mask_);
    ForMarkedBlocks<RabinStrips, true>(
        bytes, min_bytes_, size, masks, [&](std::size_t start, const BlockMarks& marks) {
          for (std::size_t word = 0; word < kBlockStrips; ++word, start += kWordPositions) {
            std::uint64_t loose = MarksWithin(marks.loose[word], start, seen, size);
            if (loose == 0) continue;
            if (const std::uint64_t strict = loose & marks.strict[word]; strict != 0) {
              cut = start + static_cast<std::size_t>(__builtin_ctzll(strict));
              return true;
            }
            backup = start + 63 - static_cast<std::size_t>(__builtin_clzll(loose));
          }
          return false;
        });
    return cut == size && backup != 0 ? backup : cut;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  std::size_t min_bytes_;
  std::size_t max_bytes_;
  std::uint32_t mask_;
  std::uint32_t backup_mask_;
};

// Stage 1 of two-stage chunking (kernels/twostage).
template <typename Strips>
class LinearMarker final : public Marker {
 public:
  explicit LinearMarker(std::uint32_t mask) : mask_(mask) {}

  void Mark(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to,
            const MarkWords& marks) const override {
    constexpr std::size_t kWindow = Strips::kWindowStrips * kLinearStripBytes;
    for (std::size_t start = from; start < to; start += kWordPositions) {
      Write(marks, start, 0);
    }
    const LinearMasks masks(mask_, mask_);
    ForMarkedBlocks<Strips, false>(
        bytes, from - std::min(from, kWindow), to, masks,
        [&](std::size_t start, const BlockMarks& block) {
          for (std::size_t word = 0; word < kBlockStrips && start < to; ++word) {
            if (start >= from) Write(marks, start, MarksWithin(block.loose[word], start, from, to));
            start += kWordPositions;
          }
          return false;
        });
  }

 private:
  static void Write(const MarkWords& marks, std::size_t start, std::uint64_t word) {
    const std::size_t index = start / kWordPositions % marks.loose.size();
    marks.loose[index] = marks.strict[index] = word;
  }

  std::uint32_t mask_;
};
static_assert(kLinearStripBytes == kWordPositions);

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
