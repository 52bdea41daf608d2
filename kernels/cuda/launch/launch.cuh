// What nvcc makes of a kernel. A .cu file includes this and the kernel and says
//   template cudaError_t Launch<Marks>(const Marks::Args&, cudaStream_t, unsigned);
#pragma once

#include "kernels/cuda/kernel/portable.h"
#include "kernels/cuda/launch/launch.h"

namespace kerf::cuda {
namespace launch_internal {

template <class Kernel, int kPhase>
__device__ __forceinline__ void RunPhasesFrom(const typename Kernel::Args& args,
                                              typename Kernel::Shared& shared,
                                              typename Kernel::Local& local, unsigned tile) {
  Kernel::template Phase<kPhase>(args, shared, local, tile, threadIdx.x);
  if constexpr (kPhase + 1 < Kernel::kPhaseCount) {
    __syncthreads();
    RunPhasesFrom<Kernel, kPhase + 1>(args, shared, local, tile);
  }
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kBlockThreads, ProcessorBlocks<Kernel>())
    RunTiles(const __grid_constant__ typename Kernel::Args args) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<typename Kernel::Shared*>(shared_bytes);
  Kernel::Begin(args, shared, threadIdx.x);
  // The same for all threads of the block, so that all meet at every barrier.
  const unsigned tile_count = Kernel::TileCount(args);
  for (unsigned tile = blockIdx.x; tile < tile_count; tile += gridDim.x) {
    __syncthreads();
    typename Kernel::Local local{};
    RunPhasesFrom<Kernel, 0>(args, shared, local, tile);
    if constexpr (HasRounds<Kernel>) {
      __syncthreads();
      while (Kernel::Again(args, shared)) {
        __syncthreads();
        RunPhasesFrom<Kernel, 0>(args, shared, local, tile);
        __syncthreads();
      }
    }
  }
}

// How many blocks the current device runs at once.
template <class Kernel>
cudaError_t CountBlocks(unsigned* block_count) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  int processor_count = 0;
  cudaError_t error =
      cudaDeviceGetAttribute(&processor_count, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  int blocks_each = 0;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks_each, RunTiles<Kernel>, Kernel::kBlockThreads, sizeof(typename Kernel::Shared));
  if (error != cudaSuccess) return error;
  // Shared memory that this device does not have.
  if (blocks_each == 0) return cudaErrorLaunchOutOfResources;
  *block_count = static_cast<unsigned>(processor_count * blocks_each);
  return cudaSuccess;
}

}  // namespace launch_internal

template <class Kernel>
cudaError_t Launch(const typename Kernel::Args& args, cudaStream_t stream, unsigned block_count) {
  static_assert(kIsKernel<Kernel>);
  // What a block may have without being asked for it.
  constexpr std::size_t kPlainSharedBytes = 48 << 10;
  constexpr std::size_t kSharedBytes = sizeof(typename Kernel::Shared);
  if constexpr (kSharedBytes > kPlainSharedBytes) {
    const cudaError_t error =
        cudaFuncSetAttribute(launch_internal::RunTiles<Kernel>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, int{kSharedBytes});
    if (error != cudaSuccess) return error;
  }
  if (block_count == 0) {
    const cudaError_t error = launch_internal::CountBlocks<Kernel>(&block_count);
    if (error != cudaSuccess) return error;
  }
  typename Kernel::Args copy = args;
  void* parameters[] = {&copy};
  return cudaLaunchKernel(launch_internal::RunTiles<Kernel>, block_count, Kernel::kBlockThreads,
                          parameters, kSharedBytes, stream);
}

}  // namespace kerf::cuda
