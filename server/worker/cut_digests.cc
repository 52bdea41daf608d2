#include "server/worker/cut_digests.h"

#include <cstddef>

namespace kerf {

void FingerprintCut(std::span<const CutChunk> chunks, DigestAlgorithm algorithm,
                    std::vector<Digest>* digests) {
  // Kept by the thread and not by each of thousands of streams.
  static thread_local std::vector<Bytes> missing_bytes;
  static thread_local std::vector<Digest> missing_digests;
  missing_bytes.clear();
  for (const CutChunk& chunk : chunks) {
    if (!chunk.digest) missing_bytes.push_back(chunk.bytes);
  }
  digests->resize(chunks.size());
  if (missing_bytes.size() == chunks.size()) {
    return FingerprintMany(algorithm, missing_bytes, *digests);
  }
  missing_digests.resize(missing_bytes.size());
  FingerprintMany(algorithm, missing_bytes, missing_digests);
  std::size_t next = 0;
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    (*digests)[index] = chunks[index].digest ? *chunks[index].digest : missing_digests[next++];
  }
}

}  // namespace kerf
