#include "client/lab/analyze/corpus.h"

#include <algorithm>

namespace kerf::agent::analyze {

std::vector<Bytes> EvenPieces(Bytes all, std::uint64_t budget_bytes, std::uint64_t piece_bytes) {
  if (all.size() <= budget_bytes || piece_bytes >= all.size()) return {all};
  const std::uint64_t count = std::max<std::uint64_t>(1, budget_bytes / piece_bytes);
  const std::uint64_t stride = all.size() / count;
  std::vector<Bytes> pieces;
  pieces.reserve(count);
  for (std::uint64_t index = 0; index < count; ++index) {
    pieces.push_back(all.subspan(index * stride, std::min(piece_bytes, stride)));
  }
  return pieces;
}

}  // namespace kerf::agent::analyze
