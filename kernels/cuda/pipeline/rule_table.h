// Where a rule of a BatchPlan finds its gear table.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/cut_rule.h"
#include "kernels/cuda/kernel/extreme_hash.h"
#include "kernels/cuda/kernel/extreme_rule.h"

namespace kerf::cuda {

// `table` is BatchPlan::gear_table, or a copy of it, where the rule is used: in the memory of the
// host or of the device, at a multiple of 8.
template <class Word>
void SetTable(const std::uint8_t* table, BasicCutRule<Word>& rule) {
  rule.table = reinterpret_cast<const Word*>(table);
}
inline void SetTable(const std::uint8_t* table, ExtremeRule<MaxCdcHashes>& rule) {
  rule.hash.table = reinterpret_cast<const std::uint32_t*>(table);
}
// It has none.
inline void SetTable(const std::uint8_t*, ExtremeRule<MinCdcHashes>&) {}

}  // namespace kerf::cuda
