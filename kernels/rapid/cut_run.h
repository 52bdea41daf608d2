// Chunks that stood one behind the other in a file: what predicts both the next cuts and the next
// fingerprints. Who vouches for a run decides what may be concluded from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf {

struct RunChunk {
  Digest digest;
  // 1 .. kMaxMaxBytes.
  std::uint32_t length_bytes = 0;
  // Its last byte, which FF+MT compares (RapidCDC, section 3.2).
  std::uint8_t marker = 0;

  friend bool operator==(const RunChunk&, const RunChunk&) = default;
};

// A statement: a file held these chunks, one behind the other, and its profile's rule cut there.
// That is a fact about bytes: it never grows stale. Immutable, so any number of threads may read
// it.
class CutRun {
 public:
  static constexpr std::size_t kMaxChunks = 4096;

  // For who has cut the file: by a chunker of the profile or in exact mode (rapid_cutter.h), never
  // in another mode. `chunks` is 1 .. kMaxChunks chunks of valid length; `ended_by_eof`: the file
  // ended with the last one.
  static CutRun OfExactCuts(const Profile& profile, DigestAlgorithm digest_algorithm,
                            std::vector<RunChunk> chunks, bool ended_by_eof);

  // The same from somebody who is only believed to be useful. Nothing exact follows from it.
  static CutRun OfHearsay(const Profile& profile, DigestAlgorithm digest_algorithm,
                          std::vector<RunChunk> chunks, bool ended_by_eof);

  const Profile& profile() const { return profile_; }
  DigestAlgorithm digest_algorithm() const { return digest_algorithm_; }
  std::span<const RunChunk> chunks() const { return chunks_; }
  // Whether the file ended with the last chunk.
  bool ended_by_eof() const { return ended_by_eof_; }
  // The same of the chunk at `index`.
  bool EndedByEof(std::size_t index) const { return ended_by_eof_ && index + 1 == chunks_.size(); }

  // Whether equal digests prove that bytes are cut as the run says: it is of exact cuts by this
  // profile, and nobody can make other bytes with these digests, as everybody can with XXH3.
  bool Vouches(const Profile& profile, DigestAlgorithm digest_algorithm) const;

 private:
  CutRun(const Profile& profile, DigestAlgorithm digest_algorithm, std::vector<RunChunk> chunks,
         bool ended_by_eof, bool is_of_exact_cuts);

  Profile profile_;
  DigestAlgorithm digest_algorithm_;
  std::vector<RunChunk> chunks_;
  bool ended_by_eof_;
  bool is_of_exact_cuts_;
};

}  // namespace kerf
