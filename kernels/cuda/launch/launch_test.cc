// The launch where there is a device and where there is none.
#include "kernels/cuda/launch/launch.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/launch/tile_sum.h"

namespace kerf::cuda {
namespace {

constexpr std::uint32_t kTileCount = 1000;
constexpr std::uint32_t kBias = 7;
using Sum = TileSum<false>;

bool HasDevice() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// In memory of the device, of which the test has little enough not to give it back.
std::uint32_t* Copied(const std::vector<std::uint32_t>& values) {
  const std::size_t size_bytes = values.size() * sizeof(std::uint32_t);
  void* place = nullptr;
  EXPECT_EQ(cudaMalloc(&place, size_bytes), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(place, values.data(), size_bytes, cudaMemcpyHostToDevice), cudaSuccess);
  return static_cast<std::uint32_t*>(place);
}

void RunsEveryTile(unsigned block_count) {
  std::vector<std::uint32_t> numbers(kTileCount * 64);
  std::iota(numbers.begin(), numbers.end(), 0u);
  std::vector<std::uint32_t> sums(kTileCount);
  std::uint32_t* const on_device = Copied(sums);
  ASSERT_EQ(
      Launch<Sum>({Copied(numbers), on_device, Copied({kTileCount}), kBias}, nullptr, block_count),
      cudaSuccess);
  ASSERT_EQ(cudaMemcpy(sums.data(), on_device, kTileCount * sizeof(std::uint32_t),
                       cudaMemcpyDeviceToHost),
            cudaSuccess);
  for (std::uint32_t tile = 0; tile < kTileCount; ++tile) {
    EXPECT_EQ(sums[tile], 64 * 64 * tile + 63 * 64 / 2 + kBias) << "tile " << tile;
  }
}

// Without a device, or a driver, each launch says so, however it is asked for; with one it runs.
TEST(LaunchTest, RunsOrSaysWhyNot) {
  EXPECT_EQ(Launch<Sum>({}, nullptr, kOnlyLoad) == cudaSuccess, HasDevice());
  for (const unsigned block_count : {0u, 1u, 7u}) {
    if (HasDevice()) {
      RunsEveryTile(block_count);
    } else {
      EXPECT_NE(Launch<Sum>({}, nullptr, block_count), cudaSuccess) << block_count << " blocks";
    }
  }
}

}  // namespace
}  // namespace kerf::cuda
