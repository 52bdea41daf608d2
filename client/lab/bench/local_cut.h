// Cutting and hashing alone: the lower bound of what a server must spend, and what its answers are
// checked against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/lab/bench/figures.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::bench {

struct LocalChunk {
  // Behind the chunk, from the start of its file.
  std::uint64_t end_offset = 0;
  Digest digest;
  // XXH3-64, as the server must answer it. Zero until AddChecks.
  std::uint64_t check = 0;
};

using LocalChunks = std::vector<LocalChunk>;

// The chunks of one file, by the same kernels that kerfd calls and without copying a byte.
LocalChunks CutAndHash(const Chunker& chunker, DigestAlgorithm digest,
                       std::span<const std::uint8_t> file);

struct LocalPass {
  PassCost cost;
  // Of each file.
  std::vector<LocalChunks> chunks;
};

// Cuts and hashes the files with `thread_count` threads and says what it cost.
LocalPass MeasureLocal(const Chunker& chunker, DigestAlgorithm digest,
                       std::span<const std::span<const std::uint8_t>> files,
                       std::size_t thread_count);

// What a check of the answers needs and the benchmark does not count.
void AddChecks(std::span<const std::uint8_t> file, LocalChunks& chunks);

}  // namespace kerf::bench
