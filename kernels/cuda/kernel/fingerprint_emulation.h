// Runs the kernels of fingerprints in the emulator, with memory around theirs that nobody may
// touch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/launch/emulator.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::cuda {

// The digests of `chunks` of `bytes`, whose size is a multiple of 16, by the kernels of BLAKE3 or
// SHA-256. The bytes end where a page ends, so that a read behind them stops the test, and in a
// second run, unless threads are real, begin where one begins; a failed check stops it where the
// runs differ, or something is written behind one of the arrays, which are as large as the kernels'
// own functions say. They hold `garbage` in the beginning.
std::vector<Digest> EmulateFingerprints(DigestAlgorithm algorithm,
                                        std::span<const std::uint8_t> bytes,
                                        const std::vector<Chunk>& chunks, std::uint8_t garbage,
                                        const EmulatorOptions& options);

}  // namespace kerf::cuda
