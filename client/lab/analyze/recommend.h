// Which profile to take, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "client/lab/analyze/figures.h"

namespace kerf::agent::analyze {

struct RecommendOptions {
  // Of the speed of fingerprinting alone: what is slower, cutting and fingerprinting together, is
  // not recommended. At a half cutting takes as long as fingerprinting.
  double min_share = 0.5;
  // For the index of a TiB of such data, in the agent and in kerfd.
  std::uint64_t max_index_bytes_per_tib = 12 * kGiB;
};

// Savings that differ by less, in parts of all data, are called equal: between two algorithms at
// one average, and between two averages.
inline constexpr double kEqualAlgorithmSavings = 0.003;
inline constexpr double kEqualAverageSavings = 0.01;
// Changes that make so many times as many bytes new, or fewer, are called equal.
inline constexpr double kEqualResync = 1.1;

struct Recommendation {
  // Of the profiles that were given.
  std::size_t index = 0;
  // The best at each wanted average, smallest first.
  std::vector<std::size_t> best_at_each_average;
  // Sentences for people.
  std::vector<std::string> reasons;
};

// The rule:
// 1. At each wanted average, of the algorithms that cut and fingerprint at min_share or faster (of
//    all, if none does), those that save as much as the best of these at equal average, less at
//    most kEqualAlgorithmSavings; of them those of which a small change makes the fewest bytes new,
//    plus at most kEqualResync; of them the fastest.
// 2. Of these winners, those whose index needs no more than max_index_bytes_per_tib (the largest
//    average, if all need more). Of them, the largest average that saves, after what the store
//    keeps about each chunk, as much as the best less at most kEqualAverageSavings.
// Profiles that were named by hand, and those that cannot be compared at equal average (the reasons
// name them), do not compete; nor does "fixed", as long as there is another: whatever this data
// says, one inserted byte would make all behind it new. Where speed is unknown (0), it does not
// count. `all` has at least one profile with a wanted average.
Recommendation Recommend(std::span<const ProfileFigures> all, const RecommendOptions& options);

}  // namespace kerf::agent::analyze
