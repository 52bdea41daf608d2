// What a device cannot run, and the CPU cuts in its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::cuda {

// Plans by algorithm and digest: those of one kind launch the same kernels, or fewer of them.
class LeftOutPlans {
 public:
  // All of the kind of `plan`, which is not left out yet.
  void Add(const BatchPlan& plan, std::string_view why);

  bool Has(const BatchPlan& plan) const;
  bool is_empty() const { return kinds_.empty(); }

  // "rabin: why not; crc with sha256, gear with sha256: why not", in the order in which they were
  // added, with an algorithm alone where it is left out with every digest that
  // there is a plan for.
  std::string Text() const;

 private:
  struct Kind {
    Algorithm algorithm;
    std::string name;
    DigestAlgorithm digest_algorithm;
    // Of the algorithm, altogether.
    std::ptrdiff_t digest_count;
    std::string why;
  };

  std::vector<Kind> kinds_;
};

}  // namespace kerf::cuda
