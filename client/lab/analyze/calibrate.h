// Finds the profile whose chunks have a wanted average on given data: algorithms can only be
// compared at the same average.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "client/lab/analyze/corpus.h"
#include "client/lab/analyze/ladder.h"
#include "kernels/chunker.h"

namespace kerf::agent::analyze {

// The average of the chunks of several pieces of data, without each piece's last one, which its end
// has cut off. A piece of one chunk counts whole.
double AverageChunkBytes(const Chunker& chunker, std::span<const Bytes> pieces);

struct Calibrated {
  Profile profile;
  // On the pieces.
  double average_bytes = 0;
};

// The first ladder that has a rung within kCloseEnough of the wanted average, or if none has the
// one that comes nearest; of its rungs the nearest. Stops early, with any rung, once `cancelled` is
// true. `ladders` is not empty.
Calibrated Calibrate(std::span<const Ladder> ladders, std::uint64_t wanted_bytes,
                     std::span<const Bytes> pieces, const std::atomic<bool>& cancelled);

inline constexpr double kCloseEnough = 0.02;

// Of a corpus, what Calibrate needs to find an average within about a percent: a thousand chunks
// and more, in pieces of at least 64.
std::vector<Bytes> CalibrationPieces(Bytes all, std::uint64_t wanted_bytes);

}  // namespace kerf::agent::analyze
