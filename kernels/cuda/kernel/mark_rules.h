// The rules of kernels/twostage as K1 takes them.
#pragma once

#include <algorithm>

#include "kernels/cuda/kernel/gear_marks.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {

// kTwoMasks must not be false where the rule has two.
template <bool kTwoMasks>
typename GearHash<kTwoMasks>::Args GearHashArgs(const GearRule& rule) {
  typename GearHash<kTwoMasks>::Args args;
  std::copy(rule.table.begin(), rule.table.end(), args.table);
  args.loose_mask = rule.loose_mask;
  args.strict_mask = rule.strict_mask;
  args.window_bytes = static_cast<std::uint32_t>(rule.window_bytes);
  return args;
}

}  // namespace kerf::cuda
