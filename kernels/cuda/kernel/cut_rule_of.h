// Profiles and rules of the CPU's two stages as the device sees them.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cuda/kernel/cut_rule.h"
#include "kernels/cuda/kernel/extreme_marks.h"
#include "kernels/cuda/kernel/extreme_rule.h"
#include "kernels/cuda/kernel/wide_gear.h"
#include "kernels/profile.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {

// `table`: the rule's 256 values, in device memory.
CutRule CutRuleOf(const GearRule& rule, const std::uint32_t* table);
CutRule CutRuleOf(const LocalRule& rule);
WideCutRule CutRuleOf(const WideGearRule& rule, const std::uint64_t* table);

// What K1 and the selection take of a profile of mincdc or maxcdc.
struct ExtremeSetting {
  ExtremeReach reach;
  std::uint32_t min_bytes;
  std::uint32_t max_bytes;

  template <class Hash>
  ExtremeRule<Hash> RuleOf(const Hash& hash) const {
    return {hash, min_bytes, max_bytes, reach.LeadPositions()};
  }
};
ExtremeSetting ExtremeSettingOf(const Profile& profile);

// Of mincdc.
MinCdcHashes MakeMinCdcHashes();

// Of maxcdc; its 256 values are those of kGearTable, `table` is where they are in device memory.
inline MaxCdcHashes MakeMaxCdcHashes(const std::uint32_t* table) { return {table}; }

// The share of candidates of a piece, as a power of two of bytes for each: some times what
// random data has, and one in 256 bytes at least, so that data that repeats itself needs no CPU.
// None for a profile without marks.
std::optional<std::uint32_t> CandidateBytesLog2(const Profile& profile);

}  // namespace kerf::cuda
