// Where a plan ends, and what to do there.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "client/agent/plan/capacity.h"

namespace kerf::agent::plan {

// Of a machine's memory, that a list of chunks may take (MaxIndexedChunks).
inline constexpr double kListedShare = 0.75;

struct LargerProfile {
  std::string_view profile;
  // As ExpectedChunkBytes says, within a tenth.
  double chunk_bytes = 0;
};

// What to cut with where chunks are too many, smaller ones first: names (`kerf profiles`), and two
// of mincdc, whose largest chunks are the second's.
std::span<const LargerProfile> LargerProfiles();

// Those that the plan meets, what is refused first. Its figures are there, its walls are not.
std::vector<Wall> FindWalls(const Input& input, const Plan& plan);

}  // namespace kerf::agent::plan
