// From which size on pieces go to a device: by fingerprint, and by how long a chunk may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::cuda {

// A batch takes at least what its longest chunk does: SHA-256 of one chunk is one thread's work, at
// a thirtieth of a core's speed. So what is fast with chunks of 8 KiB may be slower than a core
// with such of 64 KiB.
class Crossovers {
 public:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  // The same for every plan.
  explicit Crossovers(std::size_t min_piece_bytes) : of_all_(min_piece_bytes) {}
  // As they are added; nothing is for the device before.
  Crossovers() = default;

  // Measured with chunks of up to so many bytes; kNever: the device is slower at any size.
  void Add(DigestAlgorithm algorithm, std::uint32_t max_chunk_bytes, std::size_t min_piece_bytes) {
    measured_[{algorithm, max_chunk_bytes}] = min_piece_bytes;
  }

  // That of the next longer chunks that were measured. For longer ones than all: never with
  // SHA-256, else that of the longest.
  std::size_t Of(const BatchPlan& plan) const;
  // Of all plans.
  std::size_t least() const;

 private:
  std::size_t of_all_ = kNever;
  std::map<std::pair<DigestAlgorithm, std::uint32_t>, std::size_t> measured_;
};

}  // namespace kerf::cuda
