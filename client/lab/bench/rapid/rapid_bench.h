// `kerf bench rapid`: the tables of the RapidCDC paper (Ni, Jiang, SoCC 2019, section 4).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lab/bench/rapid/mode_run.h"
#include "client/lab/bench/rapid/series.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::bench {

// How fast something is; medians over the rounds.
struct Speed {
  // Of the later versions, the first of which has been stored by then.
  double bytes_per_second = 0;
  // The same as a multiple of regular cutting in the same round.
  double times_regular = 0;
  // That of all versions, the first included, as the paper has it.
  double series_times_regular = 0;
};

struct ModeFigures {
  RapidMode mode;
  ModeFacts facts;
  // Cutting alone: fingerprints and look-ups are left out of both sides.
  Speed cut;
  // Cutting, fingerprinting and looking up.
  Speed all;

  double deduplication_ratio() const {
    return static_cast<double>(facts.total_bytes) / static_cast<double>(facts.unique_bytes);
  }
  double later_duplicate_share() const {
    return static_cast<double>(facts.later_duplicate_bytes) /
           static_cast<double>(facts.later_bytes);
  }
  double later_scanned_share() const {
    return static_cast<double>(facts.later_scanned_bytes) / static_cast<double>(facts.later_bytes);
  }
};

struct RapidOptions {
  DigestAlgorithm digest = DigestAlgorithm::kBlake3;
  std::uint32_t rounds = 1;
  // Also list lengths other than the default, and the worst case.
  bool has_extras = false;
};

// All modes on one series, with one base algorithm; regular first. By turns, with regular cutting
// measured anew before every few modes. Everything is checked before it is measured (mode_run.h).
// DataLoss: something was not right, and what; Cancelled: `cancelled` became true.
absl::StatusOr<std::vector<ModeFigures>> RunRapidBench(const RapidOptions& options,
                                                       const Series& series, const Profile& profile,
                                                       const std::atomic<bool>& cancelled);

}  // namespace kerf::bench
