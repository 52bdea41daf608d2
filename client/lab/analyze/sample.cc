#include "client/lab/analyze/sample.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>

#include "base/random.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf::agent::analyze {
namespace {

// Where a name stands in the order of `seed`.
std::uint64_t RankOf(std::string_view name, std::uint64_t seed) {
  std::string letters;
  for (const char character : name) {
    if (character < '0' || character > '9') letters.push_back(character);
  }
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(letters.data()), letters.size());
  return Random(seed ^ Xxh3Of64(bytes)).Next();
}

}  // namespace

std::vector<std::uint64_t> ChooseSample(const std::vector<SampleCandidate>& candidates,
                                        std::uint64_t limit_bytes, std::uint64_t seed) {
  std::vector<std::uint64_t> taken(candidates.size());
  std::uint64_t all_bytes = 0;
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    taken[index] = candidates[index].size_bytes;
    all_bytes += taken[index];
  }
  if (all_bytes <= limit_bytes) return taken;
  const std::uint64_t share =
      limit_bytes / std::min<std::uint64_t>(std::max<std::size_t>(1, taken.size()), kLeastFiles);
  std::vector<std::uint64_t> ranks(candidates.size());
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  for (const std::size_t index : order) ranks[index] = RankOf(candidates[index].name, seed);
  std::sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return std::tie(ranks[left], candidates[left].name, left) <
           std::tie(ranks[right], candidates[right].name, right);
  });
  std::uint64_t left_bytes = limit_bytes;
  for (const std::size_t index : order) {
    const std::uint64_t wanted = std::min(candidates[index].size_bytes, share);
    taken[index] = wanted <= left_bytes ? wanted : 0;
    left_bytes -= taken[index];
  }
  return taken;
}

}  // namespace kerf::agent::analyze
