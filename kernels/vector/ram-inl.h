// RAM for one Highway target: one pass of byte maxima over the window, then a scan for the first
// byte that is at least as large.
#if defined(KERF_KERNELS_VECTOR_RAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERF_KERNELS_VECTOR_RAM_INL_H_
#undef KERF_KERNELS_VECTOR_RAM_INL_H_
#else
#define KERF_KERNELS_VECTOR_RAM_INL_H_
#endif

#include <algorithm>
#include <span>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/vector/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

class RamChunker final : public Chunker {
 public:
  explicit RamChunker(const Profile& profile)
      : window_bytes_(profile.window_bytes), max_bytes_(profile.max_bytes) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    const std::size_t size = std::min(bytes.size(), max_bytes_);
    if (size <= window_bytes_) return size;
    const ByteVector columns = StrongestColumns<AtLeast>(bytes.data(), 0, window_bytes_);
    // The search for 255 need not wait for the maximum of the columns, nor, where most windows have
    // one, for this test.
    if (!hn::AllFalse(kBytes, hn::Eq(columns, hn::Set(kBytes, 255)))) {
      return FindFirst<AtLeast>(bytes.data(), window_bytes_, size, 255);
    }
    return FindFirst<AtLeast>(bytes.data(), window_bytes_, size,
                              StrongestLane<AtLeast>(kBytes, columns));
  }

  std::size_t max_chunk_bytes() const override { return max_bytes_; }

 private:
  std::size_t window_bytes_;
  std::size_t max_bytes_;
};

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
