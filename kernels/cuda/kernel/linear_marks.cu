#include "kernels/cuda/kernel/linear_marks.h"
#include "kernels/cuda/launch/launch.cuh"

namespace kerf::cuda {

template cudaError_t Launch<CrcMarks>(const CrcMarks::Args&, cudaStream_t, unsigned);
template cudaError_t Launch<RabinMarks>(const RabinMarks::Args&, cudaStream_t, unsigned);

}  // namespace kerf::cuda
