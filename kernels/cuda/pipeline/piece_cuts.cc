#include "kernels/cuda/pipeline/piece_cuts.h"

namespace kerf::cuda {

void AppendChunks(const Chunker& chunker, std::span<const std::uint8_t> rest, bool is_end,
                  std::vector<std::span<const std::uint8_t>>& chunks) {
  while (is_end ? !rest.empty() : rest.size() >= chunker.max_chunk_bytes()) {
    chunks.push_back(rest.first(chunker.NextCut(rest)));
    rest = rest.subspan(chunks.back().size());
  }
}

PieceCuts Fingerprinted(DigestAlgorithm algorithm,
                        std::span<const std::span<const std::uint8_t>> chunks) {
  std::vector<Digest> digests(chunks.size());
  FingerprintMany(algorithm, chunks, digests);
  PieceCuts cuts;
  cuts.chunks.reserve(chunks.size());
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    cuts.chunks.push_back({static_cast<std::uint32_t>(chunks[index].size()), digests[index]});
  }
  return cuts;
}

PieceCuts CutPieceOnCpu(const Chunker& chunker, DigestAlgorithm algorithm,
                        std::span<const std::uint8_t> piece, bool is_end) {
  std::vector<std::span<const std::uint8_t>> chunks;
  AppendChunks(chunker, piece, is_end, chunks);
  return Fingerprinted(algorithm, chunks);
}

}  // namespace kerf::cuda
