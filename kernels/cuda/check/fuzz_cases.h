// What a round of the device's fuzzing is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/pipeline/batch_plan.h"

namespace kerf::cuda {

// Bytes of each kind of kernels/testing/inputs.h, the same every time, to take pieces from. Made
// once, for a GPU is faster than whatever makes data.
class FuzzData {
 public:
  explicit FuzzData(std::size_t kind_bytes);

  // Some of it, or bytes that nobody has seen, into `to`.
  void Fill(Random& random, std::span<std::uint8_t> to) const;

 private:
  std::vector<std::vector<std::uint8_t>> kinds_;
};

// A named profile or any other that there are kernels for, with either fingerprint; no chunk is
// larger than `max_chunk_bytes`, which is at least 16 KiB.
std::shared_ptr<const BatchPlan> AnyPlan(Random& random, std::size_t max_chunk_bytes);

// For up to `most_bytes`: small ones, most of them, and some of any size.
std::size_t AnySize(Random& random, std::size_t most_bytes);

}  // namespace kerf::cuda
