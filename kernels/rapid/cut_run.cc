#include "kernels/rapid/cut_run.h"

#include <utility>

#include "base/check.h"

namespace kerf {

CutRun::CutRun(const Profile& profile, DigestAlgorithm digest_algorithm,
               std::vector<RunChunk> chunks, bool ended_by_eof, bool is_of_exact_cuts)
    : profile_(profile),
      digest_algorithm_(digest_algorithm),
      chunks_(std::move(chunks)),
      ended_by_eof_(ended_by_eof),
      is_of_exact_cuts_(is_of_exact_cuts) {
  KERF_CHECK(!chunks_.empty() && chunks_.size() <= kMaxChunks);
  for (const RunChunk& chunk : chunks_) {
    KERF_CHECK(chunk.length_bytes >= 1 && chunk.length_bytes <= kMaxMaxBytes);
  }
}

CutRun CutRun::OfExactCuts(const Profile& profile, DigestAlgorithm digest_algorithm,
                           std::vector<RunChunk> chunks, bool ended_by_eof) {
  return {profile, digest_algorithm, std::move(chunks), ended_by_eof, true};
}

CutRun CutRun::OfHearsay(const Profile& profile, DigestAlgorithm digest_algorithm,
                         std::vector<RunChunk> chunks, bool ended_by_eof) {
  return {profile, digest_algorithm, std::move(chunks), ended_by_eof, false};
}

bool CutRun::Vouches(const Profile& profile, DigestAlgorithm digest_algorithm) const {
  return is_of_exact_cuts_ && profile_ == profile && digest_algorithm_ == digest_algorithm &&
         digest_algorithm_ != DigestAlgorithm::kXxh3_128;
}

}  // namespace kerf
