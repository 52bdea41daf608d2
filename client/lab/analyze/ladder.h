// The profiles of one algorithm from small chunks to large ones, so that an average can be aimed
// at.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/profile.h"

namespace kerf::agent::analyze {

// Averages that can be aimed at: every rung is then a valid profile.
inline constexpr std::uint64_t kMinWantedBytes = 1 << 10;
inline constexpr std::uint64_t kMaxWantedBytes = 1 << 20;

// An algorithm, or one of its ways: seqcdc has two, "seqcdc" for rising and "seqcdc-falling" for
// falling sequences.
std::span<const std::string_view> VariantNames();

// The names of an algorithm's variants. InvalidArgument says which algorithms there are.
absl::StatusOr<std::vector<std::string>> VariantsOf(const std::string& algorithm);

// Profiles that differ in one parameter: a higher rung means larger chunks.
struct Ladder {
  std::uint32_t rung_count = 0;
  std::function<Profile(std::uint32_t rung)> at;
};

// What is tried to come near that average, the best shape first. `variant` is one of
// VariantNames(), `wanted_bytes` between the limits. In detail:
// - with max four times the wanted average, as in the named profiles (seqcdc twice; mincdc and
//   maxcdc three times their min);
// - rabin, gear, tttd, fastcdc and fastcdc2020 know powers of two only, so their min is varied, at
//   first with half of the wanted average as `avg`. Not every average can be reached that way;
// - parameters are multiples of a hundredth or so of the wanted average, so that they are easy to
//   read.
std::vector<Ladder> LaddersFor(std::string_view variant, std::uint64_t wanted_bytes);

}  // namespace kerf::agent::analyze
