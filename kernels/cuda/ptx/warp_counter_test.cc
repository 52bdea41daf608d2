// What a warp issues, from the ways of its lanes.
#include "kernels/cuda/ptx/warp_counter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

namespace kerf::cuda::ptx {
namespace {

// Blocks of 5, 7, 11 and 13 instructions.
constexpr std::uint32_t kBlocks[] = {5, 7, 11, 13};
constexpr Kernel kKernel = {.name = "k",
                            .args_bytes = 0,
                            .kept_words = 0,
                            .has_small_shared_stores = false,
                            .sites = {},
                            .run = nullptr,
                            .block_instructions = kBlocks};

void Go(WarpCounter& counter, std::uint32_t thread, std::initializer_list<std::uint32_t> way) {
  for (const std::uint32_t block : way) counter.Enter(thread, block);
}

TEST(WarpCounterTest, LanesThatGoTheSameWayCostWhatOneDoes) {
  WarpCounter counter;
  counter.Begin(kKernel, kWarpThreads);
  for (std::uint32_t thread = 0; thread < kWarpThreads; ++thread) Go(counter, thread, {0, 1, 3});
  counter.EndInterval();
  const WarpCounts& counts = counter.counts().at(&kKernel);
  EXPECT_EQ(counts.issued, 25u);
  EXPECT_EQ(counts.lanes, 25u * kWarpThreads);
}

// Both ways of an if, and what is behind it once.
TEST(WarpCounterTest, LanesThatPartMeetAgain) {
  WarpCounter counter;
  counter.Begin(kKernel, 2);
  Go(counter, 0, {0, 1, 3});
  Go(counter, 1, {0, 2, 3});
  counter.EndInterval();
  const WarpCounts& counts = counter.counts().at(&kKernel);
  EXPECT_EQ(counts.issued, 36u);
  EXPECT_EQ(counts.lanes, 2u * 5 + 7 + 11 + 2u * 13);
}

// Who has left a loop waits until the last one has.
TEST(WarpCounterTest, ALoopTakesAsLongAsItsLongestLane) {
  WarpCounter counter;
  counter.Begin(kKernel, 2);
  Go(counter, 0, {0, 1, 1, 1, 3});
  Go(counter, 1, {0, 1, 3});
  counter.EndInterval();
  const WarpCounts& counts = counter.counts().at(&kKernel);
  EXPECT_EQ(counts.issued, 5u + 3 * 7 + 13);
  EXPECT_EQ(counts.lanes, 2u * 5 + 4 * 7 + 2 * 13);
}

// A turn of the inner loop is not taken for one of the next turn of the outer loop.
TEST(WarpCounterTest, TurnsOfAnOuterLoopAreTakenTogether) {
  WarpCounter counter;
  counter.Begin(kKernel, 2);
  Go(counter, 0, {0, 1, 1, 1, 2, 0, 1, 2});
  Go(counter, 1, {0, 1, 2, 0, 1, 1, 1, 2});
  counter.EndInterval();
  EXPECT_EQ(counter.counts().at(&kKernel).issued, 2u * 5 + 6 * 7 + 2 * 11);
}

TEST(WarpCounterTest, WarpsAndIntervalsAndLaunchesAreCountedEachByItself) {
  WarpCounter counter;
  counter.Begin(kKernel, kWarpThreads + 1);
  Go(counter, 0, {0});
  Go(counter, kWarpThreads, {0});
  counter.EndInterval();
  Go(counter, 0, {0});
  counter.EndInterval();
  counter.Loads(16);
  counter.Stores(4);
  // A block that was left in the middle, by a finding, is nothing of the next launch.
  Go(counter, 1, {3});
  counter.Begin(kKernel, 1);
  Go(counter, 0, {1});
  counter.EndInterval();
  const WarpCounts& counts = counter.counts().at(&kKernel);
  EXPECT_EQ(counts.issued, 3u * 5 + 7);
  EXPECT_EQ(counts.lanes, 3u * 5 + 7);
  EXPECT_EQ(counts.loaded_bytes, 16u);
  EXPECT_EQ(counts.stored_bytes, 4u);
}

}  // namespace
}  // namespace kerf::cuda::ptx
