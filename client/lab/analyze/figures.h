// What was measured of one profile, and what follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/index_costs.h"
#include "base/units.h"
#include "client/lab/analyze/count.h"
#include "client/lab/analyze/resync.h"
#include "client/lab/analyze/speed.h"
#include "client/store/format/store_costs.h"

namespace kerf::agent::analyze {

// What a chunk costs: a unique one in every agent that uses the store (client/store/packs/
// chunk_index.h), and in kerfd for the filters of its embedded index, or if kerfd keeps its whole
// index in memory.
inline constexpr double kAgentBytesPerChunk = 64;
inline constexpr double kServerBytesPerChunk = index_costs::kEmbeddedCacheBytes;
inline constexpr double kMemoryIndexBytesPerChunk = index_costs::kMemoryIndexBytes;

struct ProfileFigures {
  // A variant (ladder.h); for a profile that was named by hand its algorithm.
  std::string algorithm;
  // In canonical form.
  std::string profile;
  // The average that it was made for; 0 for a profile that was named by hand.
  std::uint64_t wanted_bytes = 0;
  // The average over the data as one stream, without the ends of files; 0 if not calibrated.
  double calibrated_bytes = 0;
  CountFigures count;
  ResyncFigures resync;
  SpeedFigures speed;
  // Filled by CompareAtEqualAverage.
  double compared_at_bytes = 0;
  std::optional<double> savings_at_equal_average;
  // All chunks that the algorithm can make on this data are larger: it saves at least so much.
  bool equal_is_bound = false;

  // Savings after what the store keeps about each chunk.
  double net_savings() const {
    const double kept =
        static_cast<double>(count.unique_bytes) +
        store_costs::kFooterBytesPerChunk * static_cast<double>(count.unique_chunk_count) +
        store_costs::kRecipeBytesPerChunk * static_cast<double>(count.chunk_count);
    return 1 - kept / static_cast<double>(count.total_bytes);
  }
  // Memory for the unique chunks of a TiB of such data, where each takes so much.
  double BytesPerTib(double bytes_per_chunk) const {
    return bytes_per_chunk * static_cast<double>(count.unique_chunk_count) *
           static_cast<double>(kTiB) / static_cast<double>(count.total_bytes);
  }
  double index_memory_bytes_per_tib() const {
    return BytesPerTib(kAgentBytesPerChunk + kServerBytesPerChunk);
  }
};

struct SavingsPoint {
  double average_bytes = 0;
  double savings = 0;
};

// Of one algorithm, measured beside the profiles so that its line reaches farther.
struct LinePoint {
  std::string algorithm;
  // The average that it was made for.
  std::uint64_t aimed_bytes = 0;
  SavingsPoint point;
};

// A point so near to an average, in parts of it, is said to lie there.
inline constexpr double kSameAverage = 0.01;

// The savings at that average: of the nearest point that lies there, else on a line between the
// points on both sides, over the logarithm of the average. None where no point lies on one of the
// sides: nobody knows how a line goes on.
std::optional<double> SavingsAt(const std::vector<SavingsPoint>& points, double average_bytes);

// Sets compared_at_bytes and savings_at_equal_average of each profile: for those of one wanted
// average, at the median of the averages that they really have on this data, read off the line
// through all points of the same algorithm, those of `more` too. Where all of these are larger, the
// savings of the nearest one, which smaller chunks would not save less than; where all are smaller,
// none. For a profile that was named by hand, its own.
void CompareAtEqualAverage(std::span<ProfileFigures> all, std::span<const LinePoint> more = {});

// Where a point is missing.
struct LineGap {
  std::string algorithm;
  // What to aim at.
  std::uint64_t aimed_bytes = 0;
};

// What to measure so that the lines of all algorithms reach the average at which they are compared:
// aimed a little beyond it, on the side that has no point. Of profiles and points that have been
// compared; empty if all reach it.
std::vector<LineGap> FindLineGaps(std::span<const ProfileFigures> all,
                                  std::span<const LinePoint> more);

}  // namespace kerf::agent::analyze
