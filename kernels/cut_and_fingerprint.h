// Cutting and fingerprinting in one pass over memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"

namespace kerf {

// Chunks are cut until one of these is reached and then fingerprinted together: enough for kernels
// that hash several chunks side by side, and little enough for the bytes to be still in the cache
// of the core that has just read them to cut them.
inline constexpr std::size_t kFusedBatchBytes = 256 << 10;
inline constexpr std::size_t kFusedBatchChunks = 64;

// The chunks of a batch, in order, and their fingerprints. Both are valid during the call alone.
using TakeFingerprinted = std::function<void(std::span<const std::span<const std::uint8_t>> chunks,
                                             std::span<const Digest> digests)>;

// Cuts all of `bytes` as NextCut after NextCut does, and calls `take` for every batch. Thread-safe.
void CutAndFingerprint(const Chunker& chunker, DigestAlgorithm algorithm,
                       std::span<const std::uint8_t> bytes, const TakeFingerprinted& take);

}  // namespace kerf
