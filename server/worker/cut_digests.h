// The fingerprints of chunks that were cut.
#pragma once

#include <span>
#include <vector>

#include "kernels/fingerprint/digest.h"
#include "server/worker/cut_buffer.h"

namespace kerf {

// Those that the cutter has fingerprinted already are not fingerprinted again. Thread-safe.
void FingerprintCut(std::span<const CutChunk> chunks, DigestAlgorithm algorithm,
                    std::vector<Digest>* digests);

}  // namespace kerf
