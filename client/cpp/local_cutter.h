// Cuts a file in the client's own process and fingerprints its chunks, as a server would
// (docs/spec/protocol.md, "A client that cuts").
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::client {

// For one file after another, whose bytes come in pieces. Chunks that lie in one piece are cut
// where they lie; of a piece's end, less than the longest chunk is copied. Not thread-safe.
class LocalCutter {
 public:
  struct Chunk {
    Digest digest;
    std::uint32_t length_bytes = 0;
  };
  // Is given the chunks that are certain, in order; none is given twice.
  using Take = std::function<void(std::span<const Chunk>)>;

  LocalCutter(const Profile& profile, DigestAlgorithm algorithm);
  LocalCutter(const LocalCutter&) = delete;
  LocalCutter& operator=(const LocalCutter&) = delete;

  // A file begins, or goes on behind a cut; what is left of the one before is forgotten.
  void Begin();
  // The next bytes, which it does not need afterwards.
  void Add(std::span<const std::uint8_t> bytes, const Take& take);
  // The file ends here.
  void End(const Take& take);

 private:
  std::size_t NextCut(std::span<const std::uint8_t> bytes);
  // What begins in carry_, as far as it is certain with `bytes` behind. Returns how much of these
  // belongs to it.
  std::size_t CutCarried(std::span<const std::uint8_t> bytes);
  void Give(const Take& take);

  const DigestAlgorithm algorithm_;
  const std::unique_ptr<Chunker> chunker_;
  // Null where the chunker has none.
  const std::unique_ptr<CutAhead> ahead_;
  const std::size_t max_chunk_bytes_;
  // Behind the last cut, in room for two of the longest chunks, which never moves.
  std::vector<std::uint8_t> carry_;
  // Cut and not given yet.
  std::vector<std::span<const std::uint8_t>> cut_;
  std::vector<Digest> digests_;
  std::vector<Chunk> chunks_;
};

}  // namespace kerf::client
