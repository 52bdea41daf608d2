#include "kernels/cuda/pipeline/piece_cuts.h"

namespace kerf::cuda {

PieceCuts CutPieceOnCpu(const Chunker& chunker, DigestAlgorithm algorithm,
                        std::span<const std::uint8_t> piece, bool is_end) {
  std::vector<std::span<const std::uint8_t>> chunks;
  while (is_end ? !piece.empty() : piece.size() >= chunker.max_chunk_bytes()) {
    chunks.push_back(piece.first(chunker.NextCut(piece)));
    piece = piece.subspan(chunks.back().size());
  }
  std::vector<Digest> digests(chunks.size());
  FingerprintMany(algorithm, chunks, digests);
  PieceCuts cuts;
  cuts.chunks.reserve(chunks.size());
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    cuts.chunks.push_back({static_cast<std::uint32_t>(chunks[index].size()), digests[index]});
  }
  return cuts;
}

}  // namespace kerf::cuda
