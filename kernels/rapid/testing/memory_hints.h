// A memory of what was stored, and versions of files to store: for tests and measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/rapid/hint_source.h"
#include "kernels/rapid/rapid_cutter.h"

namespace kerf {

// Remembers everything and tells it at once. Not thread-safe.
class MemoryHints final : public HintSource {
 public:
  Hint Find(const Digest& digest) override;

  // Each chunk's place in the run, and in the list of each the size of the next one. Newer runs
  // take the place of older ones.
  void Record(const std::shared_ptr<const CutRun>& run);

  // What is known of a chunk, to be spoilt.
  Hint& At(const Digest& digest) { return hints_[digest]; }

 private:
  std::unordered_map<Digest, Hint, DigestHash> hints_;
};

// The chunks of `bytes`, all of a file, as the base algorithm cuts them.
std::vector<RunChunk> CutPlainly(const Chunker& base, DigestAlgorithm digest_algorithm,
                                 std::span<const std::uint8_t> bytes);

// The next version of a file: `edits` times some bytes, at most `max_edit_bytes`, are inserted,
// deleted or overwritten.
std::vector<std::uint8_t> Edited(Random& random, std::span<const std::uint8_t> bytes,
                                 std::size_t edits, std::size_t max_edit_bytes);

}  // namespace kerf
