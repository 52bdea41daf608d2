// Starts a kernel (the contract is in kernels/cuda/launch/portable.h) on a GPU.
#pragma once

#include <cuda_runtime_api.h>

namespace kerf::cuda {

// In place of a number of blocks: gets the kernel ready on the current device and starts nothing,
// whatever the arguments are.
inline constexpr unsigned kOnlyLoad = ~0u;

// Queues the kernel on `stream` of the current device, for blocks that take turns at its tiles; 0
// blocks: as many as the device runs at once, and no more than the kernel says that it has tiles.
// What goes wrong while it runs, the stream says. cudaErrorLaunchOutOfResources: the device has
// less shared memory for a block than the kernel needs, or fewer threads; nothing was asked of it,
// so that a capture goes on. Thread-safe. Instantiated where nvcc compiles the kernel, from
// launch.cuh.
template <class Kernel>
cudaError_t Launch(const typename Kernel::Args& args, cudaStream_t stream,
                   unsigned block_count = 0);

}  // namespace kerf::cuda
