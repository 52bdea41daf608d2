#include "kernels/vector/linear_chunkers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector/linear_chunkers.cc"
#include "hwy/foreach_target.h"
// clang-format off: after foreach_target.h.
#include "hwy/highway.h"
// clang-format on

// Highway always compiles its target without vectors too; for that kernels/reference is as good.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128 && !HWY_HAVE_SCALABLE
#include "kernels/vector/linear_chunkers-inl.h"

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

std::unique_ptr<Chunker> MakeLinearChunker(const Profile& profile) {
  switch (profile.algorithm) {
    case Algorithm::kCrc:
      return std::make_unique<CrcChunker>(profile);
    case Algorithm::kRabin:
      return std::make_unique<RabinChunker>(profile);
    case Algorithm::kTttd:
      return std::make_unique<TttdChunker>(profile);
    default:
      return nullptr;
  }
}

std::unique_ptr<Marker> MakeLinearMarker(const Profile& profile) {
  switch (profile.algorithm) {
    case Algorithm::kCrc:
      return std::make_unique<LinearMarker<CrcStrips>>(CrcPlaneMask(profile.mask_bits));
    case Algorithm::kRabin:
      return std::make_unique<LinearMarker<RabinStrips>>(RabinPlaneMask(profile.avg_bytes));
    default:
      return nullptr;
  }
}

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // a target with vectors of one length

#if HWY_ONCE
#include "kernels/vector/for_each_target.h"

namespace kerf {

MakeVectorChunker LinearChunkerMaker(long long target) {
  KERF_RETURN_FOR_TARGET(target, MakeLinearChunker);
  return nullptr;
}

VectorMarkerMaker LinearMarkerMaker(long long target) {
  KERF_RETURN_FOR_TARGET(target, MakeLinearMarker);
  return nullptr;
}

}  // namespace kerf
#endif
