// Prefix sums over as many numbers as device memory says, in two launches: first within tiles, then
// over the tiles' totals. No block waits for another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/block_scan.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

inline constexpr std::uint32_t kScanTileItems = 256;

// In device memory; made by ScanTiles and, from then on complete, ScanTotals.
struct PrefixSums {
  // [i] the sum of those in front of i in its tile.
  std::uint32_t* items;
  // [t] the sum of the tiles in front of t, up to the one behind the last: the sum of all.
  std::uint32_t* totals;

  // The sum of the items in front of `index`, which may be `count`, the number of all.
  KERF_DEVICE_CODE std::uint32_t Before(std::uint32_t index, std::uint32_t count) const {
    if (index == count) return totals[(count + kScanTileItems - 1) / kScanTileItems];
    return totals[index / kScanTileItems] + items[index];
  }
};

// How many words PrefixSums::totals has.
constexpr std::size_t ScanTotalCount(std::size_t item_count) {
  return (item_count + kScanTileItems - 1) / kScanTileItems + 1;
}

// Source says what is summed up:
//   struct Args {...};
//   static std::uint32_t ItemCount(const Args& args);
//   static PrefixSums Sums(const Args& args);
//   static std::uint32_t Item(const Args& args, std::uint32_t index);   // called once for each
template <class Source>
struct ScanTiles {
  using Args = typename Source::Args;
  static constexpr unsigned kBlockThreads = kScanTileItems;
  static constexpr int kPhaseCount = 3;
  struct Shared {
    BlockScan<kBlockThreads> scan;
  };
  struct Local {
    std::uint32_t item;
  };

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return (Source::ItemCount(args) + kScanTileItems - 1) / kScanTileItems;
  }
  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    const std::uint32_t index = tile * kScanTileItems + thread;
    const std::uint32_t count = Source::ItemCount(args);
    if constexpr (kPhase == 0) {
      local.item = index < count ? Source::Item(args, index) : 0;
      shared.scan.Put(thread, local.item);
    } else if constexpr (kPhase == 1) {
      shared.scan.SumGroups(thread);
    } else {
      const std::uint32_t before = shared.scan.Before(thread);
      const PrefixSums result = Source::Sums(args);
      if (index < count) result.items[index] = before;
      if (thread == kScanTileItems - 1) result.totals[tile] = before + local.item;
    }
  }
};

template <class Source>
struct ScanTotals {
  using Args = typename Source::Args;
  static constexpr unsigned kBlockThreads = 256;
  static constexpr int kPhaseCount = 3;
  struct Shared {
    BlockScan<kBlockThreads> scan;
  };
  struct Local {};

  KERF_DEVICE_CODE static unsigned TileCount(const Args&) { return 1; }
  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned,
                                     unsigned thread) {
    // Totals one behind the other for each thread.
    const std::uint32_t count = ScanTiles<Source>::TileCount(args);
    const std::uint32_t each = (count + kBlockThreads - 1) / kBlockThreads;
    const std::uint32_t first = Min(count, thread * each);
    const std::uint32_t last = Min(count, first + each);
    std::uint32_t* const totals = Source::Sums(args).totals;
    if constexpr (kPhase == 0) {
      std::uint32_t sum = 0;
      for (std::uint32_t index = first; index < last; ++index) sum += totals[index];
      shared.scan.Put(thread, sum);
    } else if constexpr (kPhase == 1) {
      shared.scan.SumGroups(thread);
    } else {
      std::uint32_t sum = shared.scan.Before(thread);
      for (std::uint32_t index = first; index < last; ++index) {
        const std::uint32_t total = totals[index];
        totals[index] = sum;
        sum += total;
      }
      if (thread == kBlockThreads - 1) totals[count] = sum;
    }
  }
};

}  // namespace kerf::cuda
