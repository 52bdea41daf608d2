#include "kernels/cuda/kernel/count_chunks.h"
#include "kernels/cuda/launch/launch.cuh"

namespace kerf::cuda {

template cudaError_t Launch<CountChunks>(const CountChunks::Args&, cudaStream_t, unsigned);

}  // namespace kerf::cuda
