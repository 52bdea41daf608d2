// Stage 2 of two-stage chunking: walks the marks from cut to cut. The cuts are those of the
// sequential rule, whose hash restarts in every chunk: until it has seen a whole window it is not
// the hash that was marked, so the first positions of each chunk are hashed again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/twostage/mark.h"

namespace kerf {

// Of one stream, from its start. Not thread-safe.
class Selector {
 public:
  // `rule` and `bytes`, the whole stream, outlive the selector.
  Selector(const TwoStageRule& rule, std::span<const std::uint8_t> bytes)
      : rule_(rule), bytes_(bytes) {}

  // Appends the ends of chunks to `ends`, as many as the marks of the positions [0, marked) decide;
  // all when that is the whole stream. Marks before start() are not asked for.
  void Select(const MarkWords& marks, std::size_t marked, std::vector<std::uint64_t>& ends);

  // Where the chunk begins whose end comes next.
  std::size_t start() const { return start_; }

 private:
  // The length of the chunk at start(), given at most `size` bytes for it.
  std::size_t ChunkLength(const GearRule& rule, const MarkWords& marks, std::size_t size) const;
  std::size_t ChunkLength(const LocalRule& rule, const MarkWords& marks, std::size_t size) const;

  const TwoStageRule& rule_;
  std::span<const std::uint8_t> bytes_;
  std::size_t start_ = 0;
};

}  // namespace kerf
