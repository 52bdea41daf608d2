// The whole analysis: from data in memory to figures and a recommendation.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lab/analyze/corpus.h"
#include "client/lab/analyze/figures.h"
#include "client/lab/analyze/recommend.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent::analyze {

struct AnalysisOptions {
  // Variants (ladder.h), each once.
  std::vector<std::string> variants;
  // Ascending, each once, between kMinWantedBytes and kMaxWantedBytes.
  std::vector<std::uint64_t> averages;
  // Measured as they are, beside those.
  std::vector<Profile> profiles;
  // What hashing means in the speed with hashing.
  DigestAlgorithm digest = DigestAlgorithm::kBlake3;
  // Of the edits.
  std::uint64_t seed = 0;
  // For all but the timing, which is done by one. 0: as many as there are cores.
  unsigned thread_count = 0;
  // Of the timing (speed.h); less for tests.
  std::uint64_t round_bytes = kRoundBytes;
  RecommendOptions recommend;
};

// Written by Analyze, read by any thread.
struct AnalysisProgress {
  // First all profiles are found and counted, then all are timed, kTimingSweeps times. There may be
  // more to count than was known at first: what it takes to compare all at one average.
  std::atomic<std::uint64_t> planned_profiles{0};
  std::atomic<std::uint64_t> counted_profiles{0};
  std::atomic<std::uint64_t> counted_bytes{0};
  std::atomic<std::uint64_t> timed_profiles{0};
};

struct Analysis {
  // By wanted average, then in the order of the variants; those of `profiles` at the end. A profile
  // that two averages lead to stands there for each of them.
  std::vector<ProfileFigures> figures;
  // Measured beside them, to compare them.
  std::vector<LinePoint> line_points;
  Recommendation recommendation;
  // Baseline: equal files, without chunks.
  CountFigures whole_files;
};

// How many profiles will be measured at least.
std::uint64_t ProfileCount(const AnalysisOptions& options);

inline constexpr std::uint32_t kTimingSweeps = 2;

// How often a line that does not reach the average is made longer.
inline constexpr std::uint32_t kLineRounds = 3;

// Edits of each kind whose cost is measured.
inline constexpr std::uint32_t kEditsOfEachKind = 24;

// Cancelled if `cancelled` became true; nothing else goes wrong. The corpus is not empty; there is
// at least one variant and one average.
absl::StatusOr<Analysis> Analyze(const Corpus& corpus, const AnalysisOptions& options,
                                 const std::atomic<bool>& cancelled, AnalysisProgress& progress);

}  // namespace kerf::agent::analyze
