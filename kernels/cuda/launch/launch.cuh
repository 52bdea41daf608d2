// What nvcc makes of a kernel. A .cu file includes this and the kernel and says
//   template cudaError_t Launch<Marks>(const Marks::Args&, cudaStream_t, unsigned);
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {
namespace launch_internal {

// What a multiprocessor runs at once, of the architecture that is compiled for.
#if !defined(__CUDA_ARCH__)
constexpr unsigned kProcessorThreads = 2048;
#elif __CUDA_ARCH__ < 800
constexpr unsigned kProcessorThreads = 1024;
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
constexpr unsigned kProcessorThreads = 1536;
#else
constexpr unsigned kProcessorThreads = 2048;
#endif

// As the kernel says it, but no more than there are threads for: nvcc takes it for an error.
template <class Kernel>
constexpr unsigned BlocksToFit() {
  constexpr unsigned kMost = kProcessorThreads / Kernel::kBlockThreads;
  return ProcessorBlocks<Kernel>() < kMost ? ProcessorBlocks<Kernel>() : kMost;
}

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

template <class Kernel, int kPhase>
__device__ __forceinline__ void RunLastPhasesFrom(const typename Kernel::Args& args,
                                                  typename Kernel::Shared& shared) {
  Kernel::template LastPhase<kPhase>(args, shared, threadIdx.x);
  if constexpr (kPhase + 1 < Kernel::kLastPhaseCount) {
    __syncthreads();
    RunLastPhasesFrom<Kernel, kPhase + 1>(args, shared);
  }
}

// Whether all other blocks of the launch have been here before, all of whose writes this one sees
// then. To be called by all threads of the block; the same for all.
__device__ __forceinline__ bool IsLastBlock(std::uint32_t* blocks_done) {
  __shared__ bool is_last;
  // What all threads of the block have written, the first one's fences hand on and take.
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    // The last one sets it back to 0.
    is_last = atomicInc(blocks_done, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kBlockThreads, BlocksToFit<Kernel>())
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
    } else if constexpr (HasLocalRounds<Kernel>) {
      while (Kernel::Again(args, local)) {
        __syncthreads();
        RunPhasesFrom<Kernel, 0>(args, shared, local, tile);
      }
    }
  }
  if constexpr (HasLastPhases<Kernel>) {
    if (Kernel::HasLast(args) && IsLastBlock(Kernel::BlocksDone(args))) {
      RunLastPhasesFrom<Kernel, 0>(args, shared);
    }
  }
}

// Loads the kernel, which a driver that compiles takes its time for, and allows it its shared
// memory; how many blocks the device, which is the current one, runs at once.
template <class Kernel>
cudaError_t Prepare(int device, unsigned* block_count) {
  // What a block may have without being asked for it.
  constexpr std::size_t kPlainSharedBytes = 48 << 10;
  constexpr std::size_t kSharedBytes = GivenSharedBytes<Kernel>();
  int most_shared_bytes = 0;
  cudaError_t error =
      cudaDeviceGetAttribute(&most_shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  // Asked before anything else is called, which would say so with errors of its own.
  if (kSharedBytes > static_cast<std::size_t>(most_shared_bytes)) {
    return cudaErrorLaunchOutOfResources;
  }
  // Of all that may be asked of a kernel this is what surely loads it.
  cudaFuncAttributes attributes = {};
  error = cudaFuncGetAttributes(&attributes, RunTiles<Kernel>);
  if (error != cudaSuccess) return error;
  // What the kernel has of it besides comes on top.
  if (kSharedBytes + attributes.sharedSizeBytes > static_cast<std::size_t>(most_shared_bytes) ||
      attributes.maxThreadsPerBlock < int{Kernel::kBlockThreads}) {
    return cudaErrorLaunchOutOfResources;
  }
  if constexpr (kSharedBytes > kPlainSharedBytes) {
    error = cudaFuncSetAttribute(RunTiles<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 int{kSharedBytes});
    if (error != cudaSuccess) return error;
  }
  int processor_count = 0;
  error = cudaDeviceGetAttribute(&processor_count, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  int blocks_each = 0;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, RunTiles<Kernel>,
                                                        Kernel::kBlockThreads, kSharedBytes);
  if (error != cudaSuccess) return error;
  if (blocks_each == 0) return cudaErrorLaunchOutOfResources;
  if constexpr (constexpr int kMost = MostProcessorBlocks<Kernel>(); kMost > 0) {
    if (blocks_each > kMost) blocks_each = kMost;
  }
  *block_count = static_cast<unsigned>(processor_count * blocks_each);
  return cudaSuccess;
}

// Devices with higher numbers are asked at each launch.
constexpr int kMaxKnownDevices = 64;

// The same for the current device, which is asked once.
template <class Kernel>
cudaError_t PrepareOnce(unsigned* block_count) {
  // By device; 0: not asked yet.
  static std::atomic<unsigned> known[kMaxKnownDevices];
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (device >= kMaxKnownDevices) return Prepare<Kernel>(device, block_count);
  *block_count = known[device].load(std::memory_order_relaxed);
  if (*block_count != 0) return cudaSuccess;
  const cudaError_t error = Prepare<Kernel>(device, block_count);
  if (error == cudaSuccess) known[device].store(*block_count, std::memory_order_relaxed);
  return error;
}

}  // namespace launch_internal

template <class Kernel>
cudaError_t Launch(const typename Kernel::Args& args, cudaStream_t stream, unsigned block_count) {
  static_assert(kIsKernel<Kernel>);
  unsigned most_blocks = 0;
  const cudaError_t error = launch_internal::PrepareOnce<Kernel>(&most_blocks);
  if (error != cudaSuccess || block_count == kOnlyLoad) return error;
  if (block_count == 0) {
    block_count = most_blocks;
    if constexpr (HasMostTiles<Kernel>) {
      const std::size_t most_tiles = std::max<std::size_t>(Kernel::MostTiles(args), 1);
      if (most_tiles < block_count) block_count = static_cast<unsigned>(most_tiles);
    }
  }
  typename Kernel::Args copy = args;
  void* parameters[] = {&copy};
  return cudaLaunchKernel(launch_internal::RunTiles<Kernel>, block_count, Kernel::kBlockThreads,
                          parameters, GivenSharedBytes<Kernel>(), stream);
}

}  // namespace kerf::cuda
