// MAXP for one Highway target. The rule walks byte by byte and lets every byte that is at least the
// candidate take its place. But no window can end in a range that lies within the candidate's
// window, so after the range the candidate is the last occurrence of the range's maximum, if that
// is at least the old one. So each range up to the end of the window is read once, from behind:
// - at 255 the reading stops, since nothing is greater (on random bytes it passes over two thirds);
// - else the maxima are gathered, and the last occurrence is searched from behind.
#if defined(KERF_KERNELS_VECTOR_MAXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_MAXP_INL_H_
#undef KERF_KERNELS_VECTOR_MAXP_INL_H_
#else
#define KERF_KERNELS_VECTOR_MAXP_INL_H_
#endif

#include <algorithm>
#include <span>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/vector/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

class MaxpChunker final : public Chunker {
 public:
  explicit MaxpChunker(const Profile& profile)
      : window_bytes_(profile.window_bytes), max_bytes_(profile.max_bytes) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size < 2 * window_bytes_ + 1) return size;
    Candidate candidate{bytes[window_bytes_], window_bytes_, window_bytes_ + 1};
    // A window whose last byte is the last byte of all is not looked at.
    while (candidate.position + window_bytes_ + 1 < size) {
      const std::size_t end = candidate.position + window_bytes_ + 1;
      if (MoveCandidate(bytes.data(), end, candidate)) continue;
      if (HoldsToTheLeft(bytes.data(), candidate)) return candidate.position;
      candidate = {bytes[end], end, end + 1};
    }
    return size;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  struct Candidate {
    std::uint8_t byte;
    std::size_t position;
    // Between the candidate and this position all bytes are smaller.
    std::size_t scanned;
  };

  // Reads bytes[scanned, end), of which the last ends the candidate's window. False if none is at
  // least the candidate.
  static HWY_INLINE bool MoveCandidate(const std::uint8_t* bytes, std::size_t end,
                                       Candidate& candidate) {
    const ByteVector largest_bytes = hn::Set(kBytes, std::uint8_t{255});
    PrefetchBlocks(bytes + candidate.scanned + kPrefetchBytes,
                   (end - candidate.scanned + kBlockBytes - 1) / kBlockBytes);
    ByteVector maxima = hn::Zero(kBytes);
    std::size_t index = end;
    for (; index >= candidate.scanned + kStrideBytes; index -= kStrideBytes) {
      const ByteVector stride = StrongestOfStride<AtLeast>(bytes + index - kStrideBytes);
      if (!hn::AllFalse(kBytes, hn::Eq(stride, largest_bytes))) {
        candidate = {255, FindLastEqual(bytes, index, 255), end};
        return true;
      }
      maxima = hn::Max(maxima, stride);
    }
    while (index > candidate.scanned) {
      // What the first block shares with what was read before is smaller than the candidate; it
      // begins behind the candidate, because the window is not shorter than a block.
      index = std::max(index, candidate.position + 1 + kBlockBytes);
      maxima = hn::Max(maxima, StrongestOfBlock<AtLeast>(bytes + index - kBlockBytes));
      index -= kBlockBytes;
    }
    const std::uint8_t maximum = StrongestLane<AtLeast>(kBytes, maxima);
    if (maximum < candidate.byte) return false;
    candidate = {maximum, FindLastEqual(bytes, end, maximum), end};
    return true;
  }

  bool HoldsToTheLeft(const std::uint8_t* bytes, const Candidate& candidate) const {
    return candidate.byte == 255 ||
           FindFirst<GreaterThan>(bytes, candidate.position - window_bytes_, candidate.position,
                                  candidate.byte) == candidate.position;
  }

  std::size_t window_bytes_;
  std::size_t max_bytes_;
};

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
