#include "client/lab/analyze/calibrate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/units.h"

namespace kerf::agent::analyze {
namespace {

double ErrorOf(double average_bytes, std::uint64_t wanted_bytes) {
  return std::abs(std::log(average_bytes / static_cast<double>(wanted_bytes)));
}

// Averages grow with the rung, so the nearest one is found by halving; where the data makes an
// exception, the nearest of those that were looked at.
Calibrated ClimbLadder(const Ladder& ladder, std::uint64_t wanted_bytes,
                       std::span<const Bytes> pieces, const std::atomic<bool>& cancelled) {
  std::optional<Calibrated> best;
  const auto average_at = [&](std::uint32_t rung) {
    const Profile profile = ladder.at(rung);
    const double average = AverageChunkBytes(*MakeChunker(profile), pieces);
    if (!best.has_value() ||
        ErrorOf(average, wanted_bytes) < ErrorOf(best->average_bytes, wanted_bytes)) {
      best = Calibrated{profile, average};
    }
    return average;
  };
  std::uint32_t low = 0;
  std::uint32_t high = ladder.rung_count - 1;
  while (low < high && !cancelled) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (average_at(middle) < static_cast<double>(wanted_bytes)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  average_at(low);
  return *best;
}

}  // namespace

double AverageChunkBytes(const Chunker& chunker, std::span<const Bytes> pieces) {
  std::uint64_t chunk_count = 0;
  std::uint64_t chunk_bytes = 0;
  for (const Bytes piece : pieces) {
    Bytes rest = piece;
    while (!rest.empty()) {
      const std::size_t length = chunker.NextCut(rest);
      if (length == rest.size() && rest.size() < piece.size()) break;
      rest = rest.subspan(length);
      ++chunk_count;
      chunk_bytes += length;
    }
  }
  return chunk_count == 0 ? 0 : static_cast<double>(chunk_bytes) / static_cast<double>(chunk_count);
}

Calibrated Calibrate(std::span<const Ladder> ladders, std::uint64_t wanted_bytes,
                     std::span<const Bytes> pieces, const std::atomic<bool>& cancelled) {
  KERF_CHECK(!ladders.empty());
  std::optional<Calibrated> best;
  for (const Ladder& ladder : ladders) {
    const Calibrated found = ClimbLadder(ladder, wanted_bytes, pieces, cancelled);
    const double error = ErrorOf(found.average_bytes, wanted_bytes);
    if (!best.has_value() || error < ErrorOf(best->average_bytes, wanted_bytes)) best = found;
    if (error < kCloseEnough) break;
  }
  return *best;
}

std::vector<Bytes> CalibrationPieces(Bytes all, std::uint64_t wanted_bytes) {
  const std::uint64_t budget_bytes = std::clamp(1024 * wanted_bytes, 8 * kMiB, 64 * kMiB);
  return EvenPieces(all, budget_bytes, std::max(kMiB, 64 * wanted_bytes));
}

}  // namespace kerf::agent::analyze
