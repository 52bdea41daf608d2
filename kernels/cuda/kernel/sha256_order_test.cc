// The order of chunks for SHA-256: each once, and how little the lanes of a warp wait.
#include "kernels/cuda/kernel/sha256_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/launch/emulator.h"

namespace kerf::cuda {
namespace {

std::vector<std::uint32_t> Order(const std::vector<Chunk>& chunks, std::uint64_t order_seed) {
  const auto chunk_count = static_cast<std::uint32_t>(chunks.size());
  std::vector<std::uint32_t> counts(OrderCountCount(chunks.size()), 0xAAAAAAAA);
  std::vector<std::uint32_t> order(chunks.size(), 0xAAAAAAAA);
  const EmulatorOptions options = {.block_count = 3, .order_seed = order_seed};
  Emulate<OrderCounts>({chunks.data(), &chunk_count, counts.data()}, options);
  std::uint32_t next_group = 0xAAAAAAAA;
  Emulate<OrderPlaces>({chunks.data(), &chunk_count, counts.data(), order.data(), &next_group},
                       options);
  EXPECT_EQ(next_group, chunk_count > 0 ? 0u : 0xAAAAAAAAu);
  return order;
}

// Every number of blocks has a class, more blocks never a later one, and a class is narrow.
TEST(Sha256Order, Classes) {
  std::uint32_t first_of_class = 1;
  unsigned last = OrderClass(1);
  EXPECT_LT(last, kOrderClasses);
  EXPECT_LT(OrderClass((1u << 25) + 1), kOrderClasses);
  // All small ones; of the others enough to meet every class.
  for (std::uint32_t block_count = 2; block_count <= (1u << 25) + 1;
       block_count += 1 + block_count / 4096) {
    const unsigned now = OrderClass(block_count);
    if (now == last) {
      ASSERT_LE(std::uint64_t{block_count - first_of_class} * 32, first_of_class);
      continue;
    }
    ASSERT_EQ(now, last - 1) << block_count;
    last = now;
    first_of_class = block_count;
  }
}

TEST(Sha256Order, EveryChunkOnceAndByClass) {
  Random random(TestSeed());
  for (const std::size_t count : {0, 1, 31, 2047, 2048, 2049, 4096, 9000}) {
    std::vector<Chunk> chunks(count);
    for (Chunk& chunk : chunks) {
      chunk.size_bytes = static_cast<std::uint32_t>(random.Below(1u << random.Between(0, 31)));
    }
    std::vector<std::uint32_t> order = Order(chunks, random.Next());
    const auto class_of = [&](std::uint32_t chunk) {
      return OrderClass(Sha256BlockCount(chunks[chunk].size_bytes));
    };
    for (const std::uint32_t chunk : order) ASSERT_LT(chunk, count);
    EXPECT_TRUE(std::is_sorted(
        order.begin(), order.end(),
        [&](std::uint32_t left, std::uint32_t right) { return class_of(left) < class_of(right); }));
    std::sort(order.begin(), order.end());
    std::vector<std::uint32_t> all(count);
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(order, all);
  }
}

// Of the steps that warps of 32 lanes take, those in which a lane has a block of its own.
double LaneEfficiency(const std::vector<Chunk>& chunks, const std::vector<std::uint32_t>& order) {
  std::uint64_t own = 0;
  std::uint64_t all = 0;
  for (std::size_t begin = 0; begin < order.size(); begin += 32) {
    std::uint32_t longest = 0;
    for (std::size_t lane = begin; lane < std::min(begin + 32, order.size()); ++lane) {
      const std::uint32_t block_count = Sha256BlockCount(chunks[order[lane]].size_bytes);
      own += block_count;
      longest = std::max(longest, block_count);
    }
    all += 32 * std::uint64_t{longest};
  }
  return static_cast<double>(own) / static_cast<double>(all);
}

// Sizes as content-defined chunking makes them: a least one, then every byte as likely to end the
// chunk, and a largest one.
std::vector<Chunk> ContentDefinedSizes(std::size_t count, double average_bytes) {
  Random random(1);
  std::vector<Chunk> chunks(count);
  for (Chunk& chunk : chunks) {
    const double uniform = (static_cast<double>(random.Below(1 << 20)) + 1) / (1 << 20);
    const double size = average_bytes / 4 - 0.75 * average_bytes * std::log(uniform);
    chunk.size_bytes = static_cast<std::uint32_t>(std::min(size, 8 * average_bytes));
  }
  return chunks;
}

// The figures of FINGERPRINTS.md.
TEST(Sha256Order, LanesWaitLittle) {
  struct Case {
    std::size_t count;
    double average_bytes;
    double at_least;
  };
  for (const Case& tried : {Case{8192, 8 << 10, 0.97}, Case{131072, 8 << 10, 0.98},
                            Case{1024, 64 << 10, 0.90}, Case{16384, 64 << 10, 0.97}}) {
    const std::vector<Chunk> chunks = ContentDefinedSizes(tried.count, tried.average_bytes);
    std::vector<std::uint32_t> as_they_come(tried.count);
    std::iota(as_they_come.begin(), as_they_come.end(), 0u);
    const double unsorted = LaneEfficiency(chunks, as_they_come);
    const double sorted = LaneEfficiency(chunks, Order(chunks, TestSeed()));
    std::cout << tried.count << " chunks of " << tried.average_bytes << " bytes: " << unsorted
              << " as they come, " << sorted << " in order\n";
    EXPECT_GE(sorted, tried.at_least);
    EXPECT_LT(unsorted, 0.6);
  }
}

}  // namespace
}  // namespace kerf::cuda
