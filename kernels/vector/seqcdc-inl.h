// SeqCDC for one Highway target. 64 bytes are compared with those one position before; two masks
// say where the sequence goes on (steps) and where it breaks (falls; what is neither is equal). All
// else is bit tricks on these masks:
// - the fall that makes the skip is the n-th one bit of the falls;
// - positions that are the k-th step or more since the last fall come from those that are the
//   (k-1)-th or more: the next position of each, carried over equal ones by an addition, if it is a
//   step again.
#if defined(KERF_KERNELS_VECTOR_SEQCDC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_SEQCDC_INL_H_
#undef KERF_KERNELS_VECTOR_SEQCDC_INL_H_
#else
#define KERF_KERNELS_VECTOR_SEQCDC_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <span>

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#include <immintrin.h>
#endif

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/vector/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

class SeqCdcChunker final : public Chunker {
 public:
  explicit SeqCdcChunker(const Profile& profile)
      : length_(profile.sequence_length),
        trigger_(profile.skip_trigger),
        skip_bytes_(profile.skip_bytes),
        skip_blocks_(std::min(skip_bytes_, kAheadBytes) / kBlockBytes),
        min_bytes_(profile.min_bytes),
        max_bytes_(profile.max_bytes),
        // With the two sides of each comparison exchanged a fall is a step.
        left_offset_(profile.mode == SequenceMode::kIncreasing ? 1 : 0) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    if (bytes.size() < min_bytes_) return bytes.size();
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    PrefetchBlocks(bytes.data() + min_bytes_, kAheadBytes / kBlockBytes);
    State state{min_bytes_, 0, 0};
    while (state.index < size) {
      const std::size_t count = std::min(size - state.index, kBlockBytes);
      const Masks masks = Compare(bytes.data(), size, state.index);
      PrefetchBlock(bytes.data() + state.index + kAheadBytes);
      if (const std::size_t cut = Advance(bytes.data(), masks, count, state); cut != kNowhere)
        return cut;
    }
    return size;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  // Less than kPrefetchBytes: the chunk's end wastes what was asked for.
  static constexpr std::size_t kAheadBytes = 4096;

  // Bit i is about the bytes at index + i - 1 and index + i.
  struct Masks {
    std::uint64_t steps;
    std::uint64_t falls;
  };

  struct State {
    std::size_t index;
    std::size_t step_count;
    std::size_t fall_count;
  };

  // Bytes behind the end are neither.
  HWY_INLINE Masks Compare(const std::uint8_t* bytes, std::size_t size, std::size_t index) const {
    // The last block begins before `index`: size > index >= min_bytes >= 64.
    const std::size_t start = std::min(index, size - kBlockBytes);
    const std::uint8_t* const left = bytes + start - left_offset_;
    const std::uint8_t* const right = bytes + start - 1 + left_offset_;
    std::uint64_t rising_or_equal = 0;
    std::uint64_t equal = 0;
    for (std::size_t lane = 0; lane < kBlockBytes; lane += kLanes) {
      const ByteVector lefts = hn::LoadU(kBytes, left + lane);
      const ByteVector rights = hn::LoadU(kBytes, right + lane);
      rising_or_equal |= MaskBits(hn::Eq(hn::Max(lefts, rights), rights)) << lane;
      equal |= MaskBits(hn::Eq(lefts, rights)) << lane;
    }
    const std::size_t excess = index - start;
    return {(rising_or_equal & ~equal) >> excess, ~rising_or_equal >> excess};
  }

  // Goes over the block, or up to the fall that makes a skip and over the skip. The cut, or
  // kNowhere.
  HWY_INLINE std::size_t Advance(const std::uint8_t* bytes, Masks masks, std::size_t count,
                                 State& state) const {
    const std::size_t missing = trigger_ - state.fall_count;
    const std::size_t falls = static_cast<std::size_t>(std::popcount(masks.falls));
    if (falls < missing) {
      if (const std::uint64_t ends = SequenceEnds(masks, state.step_count); ends != 0) {
        return state.index + static_cast<std::size_t>(std::countr_zero(ends));
      }
      state.index += count;
      state.fall_count += falls;
      state.step_count = StepsBehindLastFall(masks, state.step_count);
      return kNowhere;
    }
    const std::size_t last = NthOne(masks.falls, missing);
    masks.steps &= (std::uint64_t{1} << last) - 1;
    if (const std::uint64_t ends = SequenceEnds(masks, state.step_count); ends != 0) {
      return state.index + static_cast<std::size_t>(std::countr_zero(ends));
    }
    PrefetchBlocks(bytes + state.index + kAheadBytes + kBlockBytes, skip_blocks_);
    state = {state.index + last + 1 + skip_bytes_, 0, 0};
    return kNowhere;
  }

  // The positions of steps that are at least the length_-th since the last fall, of which
  // `before` lie in front of the block.
  HWY_INLINE std::uint64_t SequenceEnds(const Masks& masks, std::size_t before) const {
    if (before + static_cast<std::size_t>(std::popcount(masks.steps)) < length_) return 0;
    const std::uint64_t equal = ~(masks.steps | masks.falls);
    std::uint64_t ends = masks.steps;
    for (std::size_t steps = 2; steps <= length_ && ends != 0; ++steps) {
      // Where the next step may be: behind an end, and behind the equals that follow.
      const std::uint64_t next = ends << 1 | (before + 1 >= steps ? 1 : 0);
      ends = masks.steps & ((((next & equal) + equal) ^ equal) | next);
    }
    return ends;
  }

  static HWY_INLINE std::size_t StepsBehindLastFall(const Masks& masks, std::size_t before) {
    if (masks.falls == 0) return before + static_cast<std::size_t>(std::popcount(masks.steps));
    const int last = 63 - std::countl_zero(masks.falls);
    return static_cast<std::size_t>(std::popcount(masks.steps >> last));
  }

  // The position of the n-th one bit; n is at least 1, and there are as many.
  static HWY_INLINE std::size_t NthOne(std::uint64_t bits, std::size_t n) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
    return static_cast<std::size_t>(std::countr_zero(_pdep_u64(std::uint64_t{1} << (n - 1), bits)));
#else
    for (; n > 1; --n) bits &= bits - 1;
    return static_cast<std::size_t>(std::countr_zero(bits));
#endif
  }

  std::size_t length_;
  std::size_t trigger_;
  std::size_t skip_bytes_;
  // How much more is asked for at a skip: what would have been without it.
  std::size_t skip_blocks_;
  std::size_t min_bytes_;
  std::size_t max_bytes_;
  std::size_t left_offset_;
};

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
