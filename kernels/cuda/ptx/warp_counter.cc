#include "kernels/cuda/ptx/warp_counter.h"

#include <algorithm>

#include "base/check.h"

namespace kerf::cuda::ptx {
namespace {

// Behind every block of instructions.
constexpr std::uint32_t kDone = ~0u;

}  // namespace

void WarpCounter::Begin(const Kernel& kernel, std::uint32_t thread_count) {
  KERF_CHECK(!kernel.block_instructions.empty());
  kernel_ = &kernel;
  current_ = &counts_[&kernel];
  ways_.resize(thread_count);
  for (Way& way : ways_) way.clear();
}

void WarpCounter::EndInterval() {
  const std::span<const Way> ways(ways_);
  for (std::size_t first = 0; first < ways.size(); first += kWarpThreads) {
    CountWarp(ways.subspan(first, std::min<std::size_t>(kWarpThreads, ways.size() - first)));
  }
  for (Way& way : ways_) way.clear();
}

void WarpCounter::CountWarp(std::span<const Way> ways) {
  std::array<std::size_t, kWarpThreads> gone{};
  while (true) {
    std::uint32_t first = kDone;
    for (std::size_t lane = 0; lane < ways.size(); ++lane) {
      if (gone[lane] == ways[lane].size()) continue;
      first = std::min<std::uint32_t>(first, ways[lane][gone[lane]]);
    }
    if (first == kDone) return;
    std::uint64_t lanes = 0;
    for (std::size_t lane = 0; lane < ways.size(); ++lane) {
      if (gone[lane] == ways[lane].size() || ways[lane][gone[lane]] != first) continue;
      ++gone[lane];
      ++lanes;
    }
    const std::uint64_t instructions = kernel_->block_instructions[first];
    current_->issued += instructions;
    current_->lanes += instructions * lanes;
  }
}

}  // namespace kerf::cuda::ptx
