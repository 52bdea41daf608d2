#include "kernels/vector/byte_chunkers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector/byte_chunkers.cc"
#include "hwy/foreach_target.h"
// clang-format off: after foreach_target.h.
#include "hwy/highway.h"
// clang-format on

// Highway always compiles its target without vectors too; for that kernels/scalar is better.
// Vectors of unknown length do not fit its blocks.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128 && !HWY_HAVE_SCALABLE
#include "kernels/vector/ae-inl.h"
#include "kernels/vector/maxp-inl.h"
#include "kernels/vector/maxp_local-inl.h"
#include "kernels/vector/mincdc-inl.h"
#include "kernels/vector/ram-inl.h"
#include "kernels/vector/seqcdc-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

std::unique_ptr<Chunker> MakeByteChunker(const Profile& profile) {
  switch (profile.algorithm) {
    case Algorithm::kAeMax:
      return std::make_unique<AeMaxChunker>(profile);
    case Algorithm::kAeMin:
      return std::make_unique<AeMinChunker>(profile);
    case Algorithm::kMaxp:
      return std::make_unique<MaxpChunker>(profile);
    case Algorithm::kMaxpLocal:
      return std::make_unique<MaxpLocalChunker>(profile);
    case Algorithm::kSeqCdc:
      return std::make_unique<SeqCdcChunker>(profile);
    case Algorithm::kMinCdc:
      return std::make_unique<MinCdcChunker>(profile);
    case Algorithm::kRam:
      return std::make_unique<RamChunker>(profile);
    default:
      return nullptr;
  }
}

std::unique_ptr<Marker> MakeByteMarker(const Profile& profile) {
  if (profile.algorithm != Algorithm::kMaxpLocal) return nullptr;
  return std::make_unique<MaxpLocalMarker>(profile);
}

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // a target with vectors of one length

#if HWY_ONCE
#include "kernels/vector/for_each_target.h"

namespace kerf {

MakeVectorChunker ByteChunkerMaker(long long target) {
  KERF_RETURN_FOR_TARGET(target, MakeByteChunker);
  return nullptr;
}

VectorMarkerMaker ByteMarkerMaker(long long target) {
  KERF_RETURN_FOR_TARGET(target, MakeByteMarker);
  return nullptr;
}

}  // namespace kerf
#endif
