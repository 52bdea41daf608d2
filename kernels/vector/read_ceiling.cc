#include "kernels/vector/read_ceiling.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector/read_ceiling.cc"
#include "hwy/foreach_target.h"
// clang-format off: after foreach_target.h.
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace kerf::HWY_NAMESPACE {

std::uint64_t ReadAll(std::span<const std::uint8_t> bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<std::uint8_t, 64> tag;
  const std::size_t lanes = hn::Lanes(tag);
  auto sum_0 = hn::Zero(tag);
  auto sum_1 = sum_0;
  auto sum_2 = sum_0;
  auto sum_3 = sum_0;
  for (std::size_t index = 0; index + 4 * lanes <= bytes.size(); index += 4 * lanes) {
    const std::uint8_t* const block = bytes.data() + index;
    sum_0 = hn::Add(sum_0, hn::LoadU(tag, block));
    sum_1 = hn::Add(sum_1, hn::LoadU(tag, block + lanes));
    sum_2 = hn::Add(sum_2, hn::LoadU(tag, block + 2 * lanes));
    sum_3 = hn::Add(sum_3, hn::LoadU(tag, block + 3 * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(sum_0, sum_1), hn::Add(sum_2, sum_3)));
}

}  // namespace kerf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/vector/for_each_target.h"

namespace kerf {

ReadBytes ReaderFor(long long target) {
  KERF_RETURN_FOR_TARGET(target, ReadAll);
  return nullptr;
}

}  // namespace kerf
#endif
