// Hints that all fail: RapidCDC's worst case (section 4.2, figure 12).
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/lab/bench/rapid/local_index.h"
#include "client/lab/bench/rapid/series.h"
#include "kernels/chunker.h"
#include "kernels/rapid/acceptance.h"

namespace kerf::bench {

// As many hints as true ones would be, about the chunks that regular cutting makes of a series,
// each near to the truth so that its test has to be made: sizes at which no window test holds, with
// a marker that does not stand there; where the fingerprint is tested too, first a size at which
// the window test holds, which is the end of the next chunk but one; runs of one chunk of such a
// size. FF has no worst case, for it tests nothing. Not thread-safe.
class FailingHints final : public HintSource {
 public:
  // A chunk that is followed by more different chunks than this gets no hint.
  static constexpr std::size_t kMaxPlaces = 64;

  FailingHints(const Series& series, const Chunker& base, const LocalIndexSettings& settings,
               std::optional<AcceptanceCriterion> criterion);

  Hint Find(const Digest& digest) override;

 private:
  // What stands behind a chunk, and where it is cut.
  struct Place {
    Bytes rest;
    std::size_t next_length = 0;
    std::size_t next_two_length = 0;
  };

  bool Fails(const Chunker& base, const std::vector<Place>& places, std::size_t length) const;
  std::vector<NextSize> FailingSizes(const Chunker& base, const std::vector<Place>& places) const;
  Hint MakeHint(const Chunker& base, const std::vector<Place>& places) const;

  const LocalIndexSettings settings_;
  const bool tests_fingerprint_;
  absl::flat_hash_map<Digest, Hint, DigestHash> hints_;
};

}  // namespace kerf::bench
