// Profiles and rules of the CPU's two stages as the device sees them.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cuda/kernel/cut_rule.h"
#include "kernels/cuda/kernel/selection.h"
#include "kernels/profile.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {

// `table`: the rule's 256 values, in device memory.
CutRule CutRuleOf(const GearRule& rule, const std::uint32_t* table);
CutRule CutRuleOf(const LocalRule& rule);

// The positions that count, of a rule that is given to the kernels with `args`.
void SetCountedPositions(const CutRule& rule, SelectionArgs& args);

// No chunk is smaller, but a stream's last.
std::size_t MinChunkBytes(const CutRule& rule);

// The share of candidates of a segment, as a power of two of bytes for each: four times what random
// data has, and one in 256 bytes at least, so that data that repeats itself needs no CPU. None for
// a profile without a TwoStageRule.
std::optional<std::uint32_t> CandidateBytesLog2(const Profile& profile);

}  // namespace kerf::cuda
