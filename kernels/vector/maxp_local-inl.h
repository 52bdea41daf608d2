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
#include "kernels/vector/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

class MaxpLocalChunker final : public Chunker {
 public:
  explicit MaxpLocalChunker(const Profile& profile)
      : window_bytes_(profile.window_bytes), max_bytes_(profile.max_bytes) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size < 2 * window_bytes_ + 1) return size;
    // Behind the last place that has a whole window in front of and behind it.
    const std::size_t limit = size - window_bytes_;
    for (std::size_t from = window_bytes_; from < limit;) {
      const std::size_t to = std::min(from + window_bytes_ + 1, limit);
      const std::uint8_t maximum = MaxByte(bytes.data(), from, to);
      const std::size_t place = FindFirst<AtLeast>(bytes.data(), from, to, maximum);
      if (StandsAlone(bytes.data(), from, place, maximum)) return place;
      from = to;
    }
    return size;
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  static HWY_INLINE std::uint8_t MaxByte(const std::uint8_t* bytes, std::size_t from,
                                         std::size_t to) {
    if (to - from >= kBlockBytes) return StrongestByte<AtLeast>(bytes, from, to);
    return *std::max_element(bytes + from, bytes + to);
  }

  // Whether all other bytes of both windows are smaller; those of [from, place) are.
  bool StandsAlone(const std::uint8_t* bytes, std::size_t from, std::size_t place,
                   std::uint8_t maximum) const {
    const std::size_t end = place + window_bytes_ + 1;
    if (FindFirst<AtLeast>(bytes, place + 1, end, maximum) != end) return false;
    const std::size_t begin = place - window_bytes_;
    return begin >= from || FindFirst<AtLeast>(bytes, begin, from, maximum) == from;
  }

  std::size_t window_bytes_;
  std::size_t max_bytes_;
};

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
