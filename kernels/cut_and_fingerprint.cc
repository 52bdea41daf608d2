#include "kernels/cut_and_fingerprint.h"

#include <array>
#include <memory>

namespace kerf {

void CutAndFingerprint(const Chunker& chunker, DigestAlgorithm algorithm,
                       std::span<const std::uint8_t> bytes, const TakeFingerprinted& take) {
  std::array<std::span<const std::uint8_t>, kFusedBatchChunks> chunks;
  std::array<Digest, kFusedBatchChunks> digests;
  const std::unique_ptr<CutAhead> ahead = chunker.MakeAhead();
  while (!bytes.empty()) {
    std::size_t count = 0;
    std::size_t batch_bytes = 0;
    while (count < chunks.size() && batch_bytes < kFusedBatchBytes && !bytes.empty()) {
      chunks[count] =
          bytes.first(ahead != nullptr ? ahead->NextCut(bytes) : chunker.NextCut(bytes));
      if (ahead != nullptr) ahead->Pass(chunks[count].size());
      bytes = bytes.subspan(chunks[count].size());
      batch_bytes += chunks[count].size();
      ++count;
    }
    const std::span cut = std::span(chunks).first(count);
    FingerprintMany(algorithm, cut, std::span(digests).first(count));
    take(cut, std::span(digests).first(count));
  }
}

}  // namespace kerf
