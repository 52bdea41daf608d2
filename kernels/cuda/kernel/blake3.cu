#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/launch/launch.cuh"

namespace kerf::cuda {

template cudaError_t Launch<LeafSums>(const LeafSums::Args&, cudaStream_t, unsigned);
template cudaError_t Launch<LeafOffsets>(const LeafOffsets::Args&, cudaStream_t, unsigned);
template cudaError_t Launch<Blake3Leaves>(const Blake3Leaves::Args&, cudaStream_t, unsigned);
template cudaError_t Launch<Blake3Parents>(const Blake3Parents::Args&, cudaStream_t, unsigned);

}  // namespace kerf::cuda
