#include "kernels/cuda/kernel/sha256_batch.h"
#include "kernels/cuda/launch/launch.cuh"

namespace kerf::cuda {

template cudaError_t Launch<OrderCounts>(const OrderCounts::Args&, cudaStream_t, unsigned);
template cudaError_t Launch<OrderPlaces>(const OrderPlaces::Args&, cudaStream_t, unsigned);
template cudaError_t Launch<Sha256Chunks>(const Sha256Chunks::Args&, cudaStream_t, unsigned);

}  // namespace kerf::cuda
