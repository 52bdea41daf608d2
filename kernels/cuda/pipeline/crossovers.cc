#include "kernels/cuda/pipeline/crossovers.h"

#include <algorithm>
#include <iterator>

namespace kerf::cuda {

std::size_t Crossovers::Of(const BatchPlan& plan) const {
  const DigestAlgorithm algorithm = plan.digest_algorithm;
  const auto found = measured_.lower_bound({algorithm, plan.profile.max_bytes});
  if (found != measured_.end() && found->first.first == algorithm) return found->second;
  if (algorithm == DigestAlgorithm::kSha256 || found == measured_.begin()) return of_all_;
  const auto longest = std::prev(found);
  return longest->first.first == algorithm ? longest->second : of_all_;
}

std::size_t Crossovers::least() const {
  std::size_t least = of_all_;
  for (const auto& [kind, min_piece_bytes] : measured_) least = std::min(least, min_piece_bytes);
  return least;
}

}  // namespace kerf::cuda
