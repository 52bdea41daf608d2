#include "kernels/vector/byte_chunkers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector/byte_chunkers.cc"
#include "hwy/foreach_target.h"
// clang-format off: after foreach_target.h.
#include "hwy/highway.h"
// clang-format on

// Highway always compiles its target without vectors too; for that kernels/scalar is better.
#if HWY_TARGET != HWY_SCALAR
#include "kernels/vector/ram-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

std::unique_ptr<Chunker> MakeByteChunker(const Profile& profile) {
  switch (profile.algorithm) {
    case Algorithm::kRam:
      return std::make_unique<RamChunker>(profile);
    default:
      return nullptr;
  }
}

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#if HWY_ONCE
#include "kernels/vector/for_each_target.h"

namespace kerf {

MakeVectorChunker ByteChunkerMaker(long long target) {
  KERF_RETURN_FOR_TARGET(target, MakeByteChunker);
  return nullptr;
}

}  // namespace kerf
#endif
