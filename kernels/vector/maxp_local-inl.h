// The position-local form of MAXP for one Highway target. Two bytes that are greater than all
// within `window` of them are more than `window` apart, so of window + 1 places in a row at most
// one can make a cut: the one with their maximum. It is found once for each such range, and what
// lies around it is read until something is as great.
#if defined(KERF_KERNELS_VECTOR_MAXP_LOCAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_MAXP_LOCAL_INL_H_
#undef KERF_KERNELS_VECTOR_MAXP_LOCAL_INL_H_
#else
#define KERF_KERNELS_VECTOR_MAXP_LOCAL_INL_H_
#endif

#include <algorithm>
#include <span>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/twostage/mark.h"
#include "kernels/vector/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

HWY_INLINE std::uint8_t LargestByte(const std::uint8_t* bytes, std::size_t from, std::size_t to) {
  if (to - from >= kBlockBytes) return StrongestByte<AtLeast>(bytes, from, to);
  return *std::max_element(bytes + from, bytes + to);
}

// Whether all other bytes within `window_bytes` of `place` are smaller; those of [from, place) are.
inline bool StandsAlone(const std::uint8_t* bytes, std::size_t window_bytes, std::size_t from,
                        std::size_t place, std::uint8_t maximum) {
  const std::size_t end = place + window_bytes + 1;
  if (FindFirst<AtLeast>(bytes, place + 1, end, maximum) != end) return false;
  const std::size_t begin = place - window_bytes;
  return begin >= from || FindFirst<AtLeast>(bytes, begin, from, maximum) == from;
}

// The first place in [from, limit) that stands alone, or `limit`. A window before `from` and one
// behind `limit` can be read.
inline std::size_t FindLocalMaximum(const std::uint8_t* bytes, std::size_t window_bytes,
                                    std::size_t from, std::size_t limit) {
  while (from < limit) {
    const std::size_t to = std::min(from + window_bytes + 1, limit);
    const std::uint8_t maximum = LargestByte(bytes, from, to);
    const std::size_t place = FindFirst<AtLeast>(bytes, from, to, maximum);
    if (StandsAlone(bytes, window_bytes, from, place, maximum)) return place;
    from = to;
  }
  return limit;
}

class MaxpLocalChunker final : public Chunker {
 public:
  explicit MaxpLocalChunker(const Profile& profile)
      : window_bytes_(profile.window_bytes), max_bytes_(profile.max_bytes) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size < 2 * window_bytes_ + 1) return size;
    // Behind the last place that has a whole window in front of and behind it.
    const std::size_t limit = size - window_bytes_;
    const std::size_t place = FindLocalMaximum(bytes.data(), window_bytes_, window_bytes_, limit);
    return place == limit ? size : place;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  std::size_t window_bytes_;
  std::size_t max_bytes_;
};

// Stage 1 of two-stage chunking (kernels/twostage).
class MaxpLocalMarker final : public Marker {
 public:
  explicit MaxpLocalMarker(const Profile& profile) : window_bytes_(profile.window_bytes) {}

  void Mark(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to,
            const MarkWords& marks) const override {
    const auto word_of = [&](std::size_t position) {
      return position / kWordPositions % marks.loose.size();
    };
    for (std::size_t start = from; start < to; start += kWordPositions) {
      marks.loose[word_of(start)] = marks.strict[word_of(start)] = 0;
    }
    if (bytes.size() <= 2 * window_bytes_) return;
    const std::size_t limit = std::min(to, bytes.size() - window_bytes_);
    for (std::size_t next = std::max(from, window_bytes_); next < limit;) {
      const std::size_t place = FindLocalMaximum(bytes.data(), window_bytes_, next, limit);
      if (place == limit) return;
      const std::size_t word = word_of(place);
      marks.strict[word] = marks.loose[word] |= std::uint64_t{1} << place % kWordPositions;
      // Nothing within its window stands alone too.
      next = place + window_bytes_ + 1;
    }
  }

 private:
  std::size_t window_bytes_;
};

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
