#include "kernels/cuda/kernel/wide_gear.h"

#include <algorithm>
#include <bit>

#include "kernels/reference/fastcdc2020.h"

namespace kerf::cuda {

std::optional<WideGearRule> WideGearRuleOf(const Profile& profile) {
  if (profile.algorithm != Algorithm::kFastCdc2020) return std::nullopt;
  WideGearRule rule;
  std::copy(FastCdc2020Gear().begin(), FastCdc2020Gear().end(), rule.table.begin());
  const auto bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
  rule.strict_mask = FastCdc2020Mask(bits + profile.level);
  rule.loose_mask = FastCdc2020Mask(bits - profile.level);
  rule.window_bytes = static_cast<std::size_t>(std::bit_width(rule.strict_mask | rule.loose_mask));
  rule.min_bytes = profile.min_bytes;
  rule.avg_bytes = profile.avg_bytes;
  rule.max_bytes = profile.max_bytes;
  rule.step_bytes = 2;
  return rule;
}

}  // namespace kerf::cuda
