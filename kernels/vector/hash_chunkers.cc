#include "kernels/vector/hash_chunkers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector/hash_chunkers.cc"
#include "hwy/foreach_target.h"
// clang-format off: after foreach_target.h.
#include "hwy/highway.h"
// clang-format on

// Highway always compiles its target without vectors too; for that kernels/scalar is better.
#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
#include "kernels/vector/fastcdc-inl.h"
#include "kernels/vector/gear-inl.h"
#include "kernels/vector/mark-inl.h"
#include "kernels/vector/maxcdc-inl.h"

KERF_BEFORE_HASHES();
namespace kerf::HWY_NAMESPACE {

std::unique_ptr<Chunker> MakeHashChunker(const Profile& profile) {
  switch (profile.algorithm) {
    case Algorithm::kGear:
      return std::make_unique<GearChunker>(profile);
    case Algorithm::kMaxCdc:
      return std::make_unique<MaxCdcChunker>(profile);
#if HWY_TARGET == HWY_AVX3_DL
    case Algorithm::kFastCdc:
    case Algorithm::kFastCdc2020:
      return MakeFastCdcChunker(profile);
#endif
    default:
      return nullptr;
  }
}

std::unique_ptr<Marker> MakeHashMarker(const Profile& profile) {
  switch (profile.algorithm) {
    case Algorithm::kGear:
      return std::make_unique<GearMarker>(profile);
#if HWY_TARGET == HWY_AVX3_DL
    case Algorithm::kFastCdc:
      return std::make_unique<FastCdcMarker>(*GearRuleOf(profile));
#endif
    default:
      return nullptr;
  }
}

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
#include "kernels/vector/for_each_target.h"

namespace kerf {

MakeVectorChunker HashChunkerMaker(long long target) {
  KERF_RETURN_FOR_TARGET(target, MakeHashChunker);
  return nullptr;
}

VectorMarkerMaker HashMarkerMaker(long long target) {
  KERF_RETURN_FOR_TARGET(target, MakeHashMarker);
  return nullptr;
}

}  // namespace kerf
#endif
