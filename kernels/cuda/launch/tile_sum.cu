// The kernel of the launch's test, for the device.
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/launch/tile_sum.h"

namespace kerf::cuda {

template cudaError_t Launch<TileSum<false>>(const TileSum<false>::Args&, cudaStream_t, unsigned);

}  // namespace kerf::cuda
