// Prefix sums for numbers of items around all borders of tiles.
#include "kernels/cuda/kernel/prefix_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/cuda/launch/emulator.h"

namespace kerf::cuda {
namespace {

struct Numbers {
  struct Args {
    const std::uint32_t* numbers;
    const std::uint32_t* count;
    PrefixSums sums;
    std::uint32_t* blocks_done;
    std::uint32_t* sum;
  };

  static std::uint32_t ItemCount(const Args& args) { return *args.count; }
  static PrefixSums Sums(const Args& args) { return args.sums; }
  static std::uint32_t Item(const Args& args, std::uint32_t index) { return args.numbers[index]; }
  static std::size_t MostItems(const Args& args) { return *args.count; }
  static std::uint32_t* BlocksDone(const Args& args) { return args.blocks_done; }
  static void TakeSum(const Args& args, std::uint32_t sum) { *args.sum = sum; }
};

void ExpectSums(std::uint32_t count, const EmulatorOptions& options) {
  Random random(TestSeed());
  std::vector<std::uint32_t> numbers(count);
  for (std::uint32_t& number : numbers) number = static_cast<std::uint32_t>(random.Below(1000));
  std::vector<std::uint32_t> items(count, 0xA5A5A5A5);
  std::vector<std::uint32_t> totals(ScanTotalCount(count), 0xA5A5A5A5);
  const PrefixSums sums{items.data(), totals.data()};
  std::uint32_t blocks_done = 0;
  for (const bool is_one_launch : {false, true}) {
    SCOPED_TRACE(is_one_launch ? "one launch" : "two launches");
    std::fill(items.begin(), items.end(), 0xA5A5A5A5);
    std::fill(totals.begin(), totals.end(), 0xA5A5A5A5);
    std::uint32_t all = 0xA5A5A5A5;
    const Numbers::Args args{numbers.data(), &count, sums, &blocks_done, &all};
    if (is_one_launch) {
      Emulate<Scan<Numbers>>(args, options);
    } else {
      Emulate<ScanTiles<Numbers>>(args, options);
      Emulate<ScanTotals<Numbers>>(args, options);
    }
    std::uint32_t sum = 0;
    for (std::uint32_t index = 0; index < count; ++index) {
      ASSERT_EQ(sums.Before(index, count), sum) << index << " of " << count;
      sum += numbers[index];
    }
    ASSERT_EQ(sums.Before(count, count), sum) << "all of " << count;
    ASSERT_EQ(all, sum);
  }
}

TEST(PrefixSums, AroundTiles) {
  for (const std::uint32_t count :
       {0u, 1u, 2u, 255u, 256u, 257u, 512u, 1000u, 65535u, 65536u, 65537u}) {
    ExpectSums(count, {.order_seed = TestSeed()});
  }
}

TEST(PrefixSums, MoreTilesThanABlockHasThreads) {
  ExpectSums(kScanTileItems * 256 + 1, {});
  ExpectSums(kScanTileItems * 1000 - 7, {.block_count = 3});
}

}  // namespace
}  // namespace kerf::cuda
