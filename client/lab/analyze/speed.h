// How fast this processor cuts the data, alone and together with hashing.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "client/lab/analyze/corpus.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::agent::analyze {

// Of one thread over data in memory; bytes a second of the data, also where a rule skips some.
struct SpeedFigures {
  // The fastest here, or the one that was forced.
  std::string backend;
  double cut_bytes_per_second = 0;
  // Cutting and fingerprinting in batches, as a worker of kerfd does.
  double hashed_bytes_per_second = 0;
  // Of loading each byte once and nothing else, by turns with the others.
  double ceiling_bytes_per_second = 0;
  // Of fingerprinting chunks as large as these are on average, without looking for their ends, by
  // turns with the others.
  double fingerprint_bytes_per_second = 0;

  double share_of_ceiling() const {
    return ceiling_bytes_per_second == 0 ? 0 : cut_bytes_per_second / ceiling_bytes_per_second;
  }
  // What cutting leaves of the speed that users could have at most; 0 if it is not known.
  double share_of_fingerprint() const {
    return fingerprint_bytes_per_second == 0
               ? 0
               : hashed_bytes_per_second / fingerprint_bytes_per_second;
  }
};

// Small data is read again and again until a round has so many bytes, so that the clock is exact
// enough.
inline constexpr std::uint64_t kRoundBytes = 32 << 20;

// Raises `figures` to the best of a few rounds over all pieces, so that it may be called again
// later: other programs disturb a while, not always. While it runs nothing else should. Ends early
// if `cancelled` became true.
void MeasureSpeed(const Profile& profile, DigestAlgorithm digest, std::span<const Bytes> pieces,
                  std::uint64_t round_bytes, const std::atomic<bool>& cancelled,
                  SpeedFigures& figures);

// Of a corpus, what is timed: more than the caches hold, if there is so much.
std::vector<Bytes> SpeedPieces(Bytes all);

}  // namespace kerf::agent::analyze
