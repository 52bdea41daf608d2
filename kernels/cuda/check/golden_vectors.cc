#include "kernels/cuda/check/golden_vectors.h"

#include <cstdint>

extern "C" {
extern const char kerf_golden_vectors_begin[];
extern const std::uint64_t kerf_golden_vectors_size;
}

namespace kerf::cuda {

std::string GoldenVectors() { return {kerf_golden_vectors_begin, kerf_golden_vectors_size}; }

}  // namespace kerf::cuda
