#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/launch/launch.cuh"

namespace kerf::cuda {

template cudaError_t Launch<ScanTiles<ChunkLeaves>>(const ChunkLeaves::Args&, cudaStream_t,
                                                    unsigned);
template cudaError_t Launch<ScanTotals<ChunkLeaves>>(const ChunkLeaves::Args&, cudaStream_t,
                                                     unsigned);
template cudaError_t Launch<Blake3Leaves>(const Blake3Leaves::Args&, cudaStream_t, unsigned);
template cudaError_t Launch<Blake3Parents>(const Blake3Parents::Args&, cudaStream_t, unsigned);

}  // namespace kerf::cuda
