// MinCDC for one Highway target. A vector of 32-bit words that is loaded at a byte offset of 0, 1,
// 2 or 3 holds the words of every fourth position: four loads make the hashes of all. Only minima
// are kept while reading; where the smallest lies is searched at the end, in the one stretch that
// had it.
#if defined(KERF_KERNELS_VECTOR_MINCDC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_MINCDC_INL_H_
#undef KERF_KERNELS_VECTOR_MINCDC_INL_H_
#else
#define KERF_KERNELS_VECTOR_MINCDC_INL_H_
#endif

#include <algorithm>
#include <span>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/reference/rules.h"
#include "kernels/vector/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

class MinCdcChunker final : public Chunker {
 public:
  explicit MinCdcChunker(const Profile& profile)
      : min_bytes_(profile.min_bytes), max_bytes_(profile.max_bytes) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    if (bytes.size() <= min_bytes_) return bytes.size();
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    // From here on a position is that of the word in front of a cut.
    const std::size_t first = min_bytes_ - kWordBytes;
    const std::size_t end = size - kWordBytes + 1;
    return Smallest(bytes.data(), first, end) + kWordBytes;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  using WordTag = hn::Repartition<std::uint32_t, ByteTag>;
  using WordVector = hn::Vec<WordTag>;
  static constexpr WordTag kWords{};
  static constexpr std::size_t kWordBytes = sizeof(std::uint32_t);
  // As many positions are hashed by four loads; the last load reads three bytes more.
  static constexpr std::size_t kStepPositions = kLanes;
  static constexpr std::size_t kStretchPositions = 512;
  // Less than kPrefetchBytes, because it is asked for at once when a chunk begins.
  static constexpr std::size_t kAheadBytes = 8192;

  struct Best {
    std::uint32_t hash;
    // The first stretch or step that has the hash; it ends in front of `end`.
    std::size_t start;
    std::size_t end;
  };

  static HWY_INLINE WordVector Hashes(const std::uint8_t* bytes) {
    const WordVector words = hn::BitCast(kWords, hn::LoadU(kBytes, bytes));
    return hn::Add(hn::Mul(words, hn::Set(kWords, kMinCdcMultiplier)),
                   hn::Set(kWords, kMinCdcAddend));
  }

  static std::uint32_t HashAt(const std::uint8_t* bytes, std::size_t position) {
    std::uint32_t word = 0;
    for (std::size_t index = 0; index < kWordBytes; ++index) {
      word |= std::uint32_t{bytes[position + index]} << (8 * index);
    }
    return MinCdcHash(word);
  }

  // The smallest hashes of [start, start + count), column by column.
  static HWY_INLINE WordVector Columns(const std::uint8_t* bytes, std::size_t count) {
    PrefetchBlocks(bytes + kAheadBytes, count / kBlockBytes);
    WordVector minima_0 = Hashes(bytes);
    WordVector minima_1 = Hashes(bytes + 1);
    WordVector minima_2 = Hashes(bytes + 2);
    WordVector minima_3 = Hashes(bytes + 3);
    for (std::size_t index = kStepPositions; index < count; index += kStepPositions) {
      minima_0 = hn::Min(minima_0, Hashes(bytes + index));
      minima_1 = hn::Min(minima_1, Hashes(bytes + index + 1));
      minima_2 = hn::Min(minima_2, Hashes(bytes + index + 2));
      minima_3 = hn::Min(minima_3, Hashes(bytes + index + 3));
    }
    return hn::Min(hn::Min(minima_0, minima_1), hn::Min(minima_2, minima_3));
  }

  // Looks at [start, start + count); an equal hash is later and does not count.
  static HWY_INLINE void Look(const std::uint8_t* bytes, std::size_t start, std::size_t count,
                              Best& best) {
    const WordVector columns = Columns(bytes + start, count);
    const WordVector bound = hn::Set(kWords, best.hash);
    // Not Lt: most targets have no unsigned one.
    if (hn::AllTrue(kWords, hn::Eq(hn::Min(columns, bound), bound))) return;
    best = {hn::GetLane(hn::MinOfLanes(kWords, columns)), start, start + count};
  }

  // The first position in [first, end) with the smallest hash.
  static HWY_INLINE std::size_t Smallest(const std::uint8_t* bytes, std::size_t first,
                                         std::size_t end) {
    // Nothing is below the greatest hash: where all have it the first position wins.
    Best best{~std::uint32_t{0}, first, first};
    // What lies in front of min was not read: memory has nothing to do yet.
    PrefetchBlocks(bytes + first, std::min(kAheadBytes, end - first) / kBlockBytes);
    std::size_t index = first;
    for (; index + kStretchPositions <= end; index += kStretchPositions) {
      Look(bytes, index, kStretchPositions, best);
    }
    for (; index + kStepPositions <= end; index += kStepPositions) {
      Look(bytes, index, kStepPositions, best);
    }
    if (index < end && end - first >= kStepPositions) {
      // The last whole step; what it shares with the one before is not below the best.
      Look(bytes, end - kStepPositions, kStepPositions, best);
      index = end;
    }
    for (; index < end; ++index) {
      const std::uint32_t hash = HashAt(bytes, index);
      if (hash < best.hash) best = {hash, index, index};
    }
    return FirstWith(bytes, best);
  }

  static HWY_INLINE std::size_t FirstWith(const std::uint8_t* bytes, const Best& best) {
    const WordVector wanted = hn::Set(kWords, best.hash);
    for (std::size_t index = best.start; index < best.end; index += kStepPositions) {
      std::size_t found = kStepPositions;
      for (std::size_t offset = 0; offset < kWordBytes; ++offset) {
        const std::intptr_t lane =
            hn::FindFirstTrue(kWords, hn::Eq(Hashes(bytes + index + offset), wanted));
        if (lane < 0) continue;
        found = std::min(found, static_cast<std::size_t>(lane) * kWordBytes + offset);
      }
      if (found < kStepPositions) return index + found;
    }
    return best.start;
  }

  std::size_t min_bytes_;
  std::size_t max_bytes_;
};

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
