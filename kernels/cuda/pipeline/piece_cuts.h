// What becomes of a piece of a stream, on a GPU or on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::cuda {

struct PieceChunk {
  std::uint32_t size_bytes = 0;
  Digest digest;

  friend bool operator==(const PieceChunk&, const PieceChunk&) = default;
};

// One behind the other from the piece's begin; what is behind them is not decided, and begins the
// stream's next piece. All of the piece that ends its stream. How much of another one is decided
// may depend on where it was cut; the stream's cuts do not.
struct PieceCuts {
  std::vector<PieceChunk> chunks;

  std::size_t size_bytes() const {
    std::size_t sum = 0;
    for (const PieceChunk& chunk : chunks) sum += chunk.size_bytes;
    return sum;
  }
};

// `piece` begins where a chunk does. Of one that does not end its stream only what is sure of
// max_chunk_bytes() is decided. Thread-safe.
PieceCuts CutPieceOnCpu(const Chunker& chunker, DigestAlgorithm algorithm,
                        std::span<const std::uint8_t> piece, bool is_end);

}  // namespace kerf::cuda
