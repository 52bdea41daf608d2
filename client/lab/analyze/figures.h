// What was measured of one profile, and what follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "client/lab/analyze/count.h"
#include "client/lab/analyze/resync.h"
#include "client/lab/analyze/speed.h"

namespace kerf::agent::analyze {

// What a chunk costs, from docs: a unique chunk takes 64 bytes of memory in every agent that uses
// the store (docs/spec/store.md, Limits), 1.5 in kerfd for the filters of its embedded index
// (server/index/rocksdb_index.h), or 200 if kerfd keeps its whole index in memory
// (server/index/memory_index.h). In the store, a unique chunk is 44 bytes of a pack's footer
// (docs/spec/store.md, Packs), and each time that a chunk occurs about 34 bytes of a recipe
// (digest and length; fewer where metadata repeats).
inline constexpr double kAgentBytesPerChunk = 64;
inline constexpr double kServerBytesPerChunk = 1.5;
inline constexpr double kMemoryIndexBytesPerChunk = 200;
inline constexpr double kFooterBytesPerChunk = 44;
inline constexpr double kRecipeBytesPerChunk = 34;

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

  // Savings after what the store keeps about each chunk.
  double net_savings() const {
    const double kept = static_cast<double>(count.unique_bytes) +
                        kFooterBytesPerChunk * static_cast<double>(count.unique_chunk_count) +
                        kRecipeBytesPerChunk * static_cast<double>(count.chunk_count);
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

// The savings at that average on a line through the points, over the logarithm of the average;
// beyond the last point the line goes on for a sixth of the average, where there are two points.
// None farther away, or where there is no point.
std::optional<double> SavingsAt(std::vector<SavingsPoint> points, double average_bytes);

// Sets compared_at_bytes and savings_at_equal_average of each profile: for those of one wanted
// average, at the median of the averages that they really have on this data, read off the line
// through all points of the same algorithm. Where the line does not reach, a profile within a tenth
// of that average keeps its own savings, and one farther away has none. For a profile that was
// named by hand, its own.
void CompareAtEqualAverage(std::span<ProfileFigures> all);

}  // namespace kerf::agent::analyze
