// The emulator: a kernel that keeps the contract gives one answer in every order, and one that does
// not is shown up by some order.
#include "kernels/cuda/launch/emulator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/portable.h"
#include "kernels/cuda/launch/tile_sum.h"

namespace kerf::cuda {
namespace {

std::vector<std::uint32_t> Numbers(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint32_t> numbers(count);
  for (std::uint32_t& number : numbers) number = static_cast<std::uint32_t>(random.Next());
  return numbers;
}

// Whole vectors: what ptxas loads at once may reach behind what a kernel has.
TEST(GivenSharedBytesTest, AreWholeVectors) {
  struct Odd {
    struct Shared {
      std::uint32_t words[11];
    };
  };
  struct Even {
    struct Shared {
      std::uint32_t words[12];
    };
  };
  EXPECT_EQ(GivenSharedBytes<Odd>(), 48u);
  EXPECT_EQ(GivenSharedBytes<Even>(), 48u);
}

TEST(EmulatorTest, OneAnswerInEveryOrder) {
  std::uint32_t tile_count = 5;
  const auto numbers = Numbers(tile_count * 64, TestSeed());
  std::vector<std::uint32_t> expected;
  for (unsigned tile = 0; tile < tile_count; ++tile) {
    const auto begin = numbers.begin() + tile * 64;
    expected.push_back(std::accumulate(begin, begin + 64, 7u));
  }
  std::vector<EmulatorOptions> all = {
      {.block_count = 1}, {.block_count = 9}, {.block_count = 2, .has_real_threads = true}};
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    all.push_back({.block_count = 3, .order_seed = TestSeed() + seed});
  }
  for (const EmulatorOptions& options : all) {
    std::vector<std::uint32_t> sums(tile_count);
    Emulate<TileSum<false>>({numbers.data(), sums.data(), &tile_count, 7}, options);
    EXPECT_EQ(sums, expected);
  }
}

// counts[tile] = how often its number can be halved, a bit a round, until it is 0.
struct Halvings {
  struct Args {
    const std::uint32_t* numbers;
    std::uint32_t* counts;
    std::uint32_t tile_count;
  };
  struct Shared {
    std::uint32_t number;
  };
  struct Local {
    std::uint32_t round_count;
  };
  static constexpr unsigned kBlockThreads = 32;
  static constexpr int kPhaseCount = 2;

  static unsigned TileCount(const Args& args) { return args.tile_count; }
  static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                    unsigned thread) {
    // A different thread each time; all know the round.
    if constexpr (kPhase == 0) {
      if (thread != local.round_count % kBlockThreads) return;
      shared.number = local.round_count == 0 ? args.numbers[tile] : shared.number >> 1;
    } else {
      if (thread == 0) args.counts[tile] = local.round_count;
      ++local.round_count;
    }
  }

  static bool Again(const Args&, const Shared& shared) { return shared.number != 0; }
};

TEST(EmulatorTest, RoundsGoOnAsLongAsTheKernelSays) {
  const std::vector<std::uint32_t> numbers = {0, 1, 0xFFFFFFFF, 5, 0};
  for (const EmulatorOptions& options :
       {EmulatorOptions{}, EmulatorOptions{.order_seed = TestSeed()},
        EmulatorOptions{.block_count = 1, .has_real_threads = true}}) {
    std::vector<std::uint32_t> counts(numbers.size(), 99);
    Emulate<Halvings>({numbers.data(), counts.data(), 5}, options);
    EXPECT_EQ(counts, (std::vector<std::uint32_t>{0, 1, 32, 3, 0}));
  }
}

// sums[tile] = the numbers from that of the tile down to 1, one a round: each round's thread adds
// to what the thread of the round before has left. Which round is the last each thread knows
// itself.
struct CountingDown {
  struct Args {
    const std::uint32_t* numbers;
    std::uint32_t* sums;
    std::uint32_t tile_count;
  };
  struct Shared {
    std::uint32_t sum[2];
  };
  struct Local {
    std::uint32_t round;
    std::uint32_t rest;
  };
  static constexpr unsigned kBlockThreads = 32;
  static constexpr int kPhaseCount = 1;

  static unsigned TileCount(const Args& args) { return args.tile_count; }
  static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                    unsigned thread) {
    local.rest = args.numbers[tile] - local.round;
    if (thread == local.round % kBlockThreads) {
      const std::uint32_t before = local.round == 0 ? 0 : shared.sum[(local.round - 1) % 2];
      shared.sum[local.round % 2] = before + local.rest;
      args.sums[tile] = before + local.rest;
    }
    ++local.round;
  }

  static bool Again(const Args&, const Local& local) { return local.rest > 1; }
};

TEST(EmulatorTest, RoundsGoOnAsLongAsTheThreadsSay) {
  const std::vector<std::uint32_t> numbers = {1, 2, 100, 33, 1};
  for (const EmulatorOptions& options :
       {EmulatorOptions{}, EmulatorOptions{.order_seed = TestSeed()},
        EmulatorOptions{.block_count = 1, .has_real_threads = true}}) {
    std::vector<std::uint32_t> sums(numbers.size(), 99);
    Emulate<CountingDown>({numbers.data(), sums.data(), 5}, options);
    EXPECT_EQ(sums, (std::vector<std::uint32_t>{1, 3, 5050, 561, 1}));
  }
}

// Only one thread wants another round: on a device it would wait for the others for ever.
struct Quarrel {
  struct Args {};
  struct Shared {};
  struct Local {
    bool is_first;
  };
  static constexpr unsigned kBlockThreads = 32;
  static constexpr int kPhaseCount = 1;

  static unsigned TileCount(const Args&) { return 1; }
  static void Begin(const Args&, Shared&, unsigned) {}
  template <int kPhase>
  static void Phase(const Args&, Shared&, Local& local, unsigned, unsigned thread) {
    local.is_first = thread == 0;
  }
  static bool Again(const Args&, const Local& local) { return local.is_first; }
};

TEST(EmulatorDeathTest, ThreadsThatDoNotAgreeOnAnotherRound) {
  EXPECT_DEATH(Emulate<Quarrel>({}), "IsAnotherRound");
}

// tops[0] = the greatest of all numbers, of which each tile finds that of its 32; unless there is
// one tile only, of which nothing is left to be done.
struct Greatest {
  struct Args {
    const std::uint32_t* numbers;
    std::uint32_t* tops;
    std::uint32_t* blocks_done;
    std::uint32_t tile_count;
  };
  struct Shared {
    std::uint32_t numbers[32];
  };
  struct Local {};
  static constexpr unsigned kBlockThreads = 32;
  static constexpr int kPhaseCount = 2;
  static constexpr int kLastPhaseCount = 2;

  static unsigned TileCount(const Args& args) { return args.tile_count; }
  static std::size_t MostTiles(const Args&) { return 70; }
  static std::uint32_t* BlocksDone(const Args& args) { return args.blocks_done; }
  static bool HasLast(const Args& args) { return args.tile_count > 1; }
  static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  static void Phase(const Args& args, Shared& shared, Local&, unsigned tile, unsigned thread) {
    if constexpr (kPhase == 0) {
      shared.numbers[thread] = args.numbers[tile * 32 + thread];
    } else if (thread == 0) {
      args.tops[tile] = *std::max_element(shared.numbers, shared.numbers + 32);
    }
  }

  template <int kPhase>
  static void LastPhase(const Args& args, Shared& shared, unsigned thread) {
    if constexpr (kPhase == 0) {
      shared.numbers[thread] = 0;
      for (std::uint32_t tile = thread; tile < args.tile_count; tile += 32) {
        shared.numbers[thread] = std::max(shared.numbers[thread], args.tops[tile]);
      }
    } else if (thread == 0) {
      args.tops[0] = *std::max_element(shared.numbers, shared.numbers + 32);
    }
  }
};

TEST(EmulatorTest, TheLastBlockSeesAllTiles) {
  for (const std::uint32_t tile_count : {1u, 2u, 70u}) {
    const auto numbers = Numbers(tile_count * 32, TestSeed());
    for (const EmulatorOptions& options :
         {EmulatorOptions{}, EmulatorOptions{.block_count = 3, .order_seed = TestSeed()},
          EmulatorOptions{.block_count = 2, .has_real_threads = true}}) {
      std::uint32_t blocks_done = 0;
      std::vector<std::uint32_t> tops(tile_count);
      Emulate<Greatest>({numbers.data(), tops.data(), &blocks_done, tile_count}, options);
      EXPECT_EQ(tops[0], *std::max_element(numbers.begin(), numbers.end()));
    }
  }
}

TEST(EmulatorDeathTest, SaysWhatAGpuWouldNotSee) {
  const std::vector<std::uint32_t> numbers(71 * 32);
  std::vector<std::uint32_t> tops(71);
  std::uint32_t blocks_done = 1;
  EXPECT_DEATH(Emulate<Greatest>({numbers.data(), tops.data(), &blocks_done, 2}), "BlocksDone");
  blocks_done = 0;
  EXPECT_DEATH(Emulate<Greatest>({numbers.data(), tops.data(), &blocks_done, 71}), "MostTiles");
}

TEST(EmulatorTest, NoTilesWriteNothing) {
  std::uint32_t tile_count = 0;
  Emulate<TileSum<false>>({nullptr, nullptr, &tile_count, 7});
}

TEST(EmulatorTest, AnOrderShowsUpAMissingBarrier) {
  std::uint32_t tile_count = 1;
  const auto numbers = Numbers(64, TestSeed());
  std::vector<std::uint32_t> ascending(64);
  Emulate<TileSum<true>>({numbers.data(), ascending.data(), &tile_count, 0}, {.block_count = 1});
  std::vector<std::uint32_t> shuffled(64);
  Emulate<TileSum<true>>({numbers.data(), shuffled.data(), &tile_count, 0},
                         {.block_count = 1, .order_seed = TestSeed()});
  EXPECT_NE(ascending, shuffled);
}

TEST(PortableTest, VectorsKeepTheOrderOfBytes) {
  alignas(16) std::uint8_t bytes[32];
  std::iota(std::begin(bytes), std::end(bytes), std::uint8_t{1});
  alignas(16) std::uint8_t copy[32] = {};
  Store16(copy, LoadReadOnly16(bytes));
  Store16(copy + 16, LoadInOrder16(bytes + 16));
  EXPECT_TRUE(std::equal(std::begin(bytes), std::end(bytes), copy));
  EXPECT_EQ(LoadInOrder16(bytes).words[1], 0x08070605u);
}

TEST(PortableTest, TwinsDoWhatTheDeviceDoes) {
  EXPECT_EQ(PopCount(0), 0u);
  EXPECT_EQ(PopCount(0xF0000001), 5u);
  EXPECT_EQ(LowestBit(0x80000000), 31u);
  EXPECT_EQ(HighestBit(0x80000001), 31u);
  EXPECT_EQ(HighestBit(1), 0u);
  EXPECT_EQ(FunnelShiftRight(0x89ABCDEF, 0x01234567, 0), 0x89ABCDEFu);
  EXPECT_EQ(FunnelShiftRight(0x89ABCDEF, 0x01234567, 8), 0x6789ABCDu);
  EXPECT_EQ(RotateRight(0x80000001, 1), 0xC0000000u);
  EXPECT_EQ(PermuteBytes(0x33221100, 0x77665544, 0x0246), 0x00224466u);
  std::uint32_t word = 5;
  EXPECT_EQ(AtomicAdd(&word, 3), 5u);
  EXPECT_EQ(AtomicOr(&word, 1), 8u);
  EXPECT_EQ(word, 9u);
  EXPECT_EQ(AtomicMin(&word, 12), 9u);
  EXPECT_EQ(AtomicMin(&word, 3), 9u);
  EXPECT_EQ(word, 3u);
  EXPECT_EQ(AtomicMax(&word, 2), 3u);
  EXPECT_EQ(AtomicMax(&word, 0x80000000), 3u);
  EXPECT_EQ(word, 0x80000000u);
  EXPECT_EQ(AddByMultiplying(0xFFFFFFFF, 1, 3), 2u);
}

}  // namespace
}  // namespace kerf::cuda
