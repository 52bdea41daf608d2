// What becomes of a piece of a stream, on a GPU or on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/cuda/pipeline/batch_times.h"
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

// What a GPU makes of a piece.
enum class PieceOutcome : std::uint8_t {
  kCut,
  // There are candidates: whoever has sent the piece selects (host_selection.h).
  kMarked,
  // Handed back: whoever has sent the piece has it cut by the CPU. Its marks are too many, or too
  // few, for the GPU to be of use,
  kGivenUp,
  // or the GPU is lost.
  kLost,
};

// Who has sent a piece. One object may send one piece after another, so that none costs memory.
class PieceTaker {
 public:
  virtual ~PieceTaker() = default;

  // Once for each piece, from a thread of the GPU's, which it may neither call nor keep waiting.
  // With kCut the chunks are in `cuts`, with kMarked what SelectOnHost asks for is in `candidates`;
  // nobody else has anything of them any more.
  virtual void OnPiece(PieceOutcome outcome) = 0;
  // Before that, of one piece of each batch whose times are known: those of them all. As OnPiece.
  virtual void OnBatch(const BatchTimes&) {}

  PieceCuts cuts;
  std::vector<std::uint32_t> candidates;
};

// Appends the chunks of `rest`, which begins where a chunk does. Of a piece that does not end its
// stream only what is sure of max_chunk_bytes() is decided. Thread-safe.
void AppendChunks(const Chunker& chunker, std::span<const std::uint8_t> rest, bool is_end,
                  std::vector<std::span<const std::uint8_t>>& chunks);

// Thread-safe.
PieceCuts Fingerprinted(DigestAlgorithm algorithm,
                        std::span<const std::span<const std::uint8_t>> chunks);

// Both: all that a GPU would have done. Thread-safe.
PieceCuts CutPieceOnCpu(const Chunker& chunker, DigestAlgorithm algorithm,
                        std::span<const std::uint8_t> piece, bool is_end);

}  // namespace kerf::cuda
