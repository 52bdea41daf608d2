// Prefix sums over as many numbers as device memory says: first within tiles, then over the tiles'
// totals. No block waits for another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/block_scan.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

inline constexpr std::uint32_t kScanTileItems = 256;

// In device memory; made by Scan, or by ScanTiles and, from then on complete, ScanTotals.
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

KERF_DEVICE_CODE constexpr std::size_t ScanTileCount(std::size_t item_count) {
  return (item_count + kScanTileItems - 1) / kScanTileItems;
}

// How many words PrefixSums::totals has.
constexpr std::size_t ScanTotalCount(std::size_t item_count) {
  return ScanTileCount(item_count) + 1;
}

// Whether the threads of a block look at a tile together before each asks for its item.
template <class Source>
concept GathersTile = requires { typename Source::Gathered; };

// Whether it wants to know the sum of all.
template <class Source>
concept TakesSum = requires(const typename Source::Args& args) { Source::TakeSum(args, 0u); };

struct NothingGathered {};
template <class Source>
struct GatheredOf {
  using Type = NothingGathered;
};
template <GathersTile Source>
struct GatheredOf<Source> {
  using Type = typename Source::Gathered;
};

// Behind the last total.
template <class Source>
KERF_DEVICE_CODE void SetSum(const typename Source::Args& args, std::uint32_t sum) {
  Source::Sums(args).totals[ScanTileCount(Source::ItemCount(args))] = sum;
  if constexpr (TakesSum<Source>) Source::TakeSum(args, sum);
}

// Source says what is summed up:
//   struct Args {...};
//   static std::uint32_t ItemCount(const Args& args);
//   static PrefixSums Sums(const Args& args);
//   static std::uint32_t Item(const Args& args, std::uint32_t index);   // called once for each
// or, in two steps with a barrier between them, the second again called once for each item:
//   struct Gathered {...};   // in shared memory
//   static void Gather(const Args& args, Gathered& gathered, unsigned tile, unsigned thread);
//   static std::uint32_t Item(const Gathered& gathered, unsigned thread);   // 0 if it is none
template <class Source>
struct ScanTiles {
  using Args = typename Source::Args;
  static constexpr unsigned kBlockThreads = kScanTileItems;
  static constexpr int kGatherPhases = GathersTile<Source> ? 1 : 0;
  static constexpr int kPhaseCount = kGatherPhases + 3;
  struct Shared {
    BlockScan<kBlockThreads> scan;
    typename GatheredOf<Source>::Type gathered;
  };
  struct Local {
    std::uint32_t item;
  };

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return static_cast<unsigned>(ScanTileCount(Source::ItemCount(args)));
  }
  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    Step<kPhase, false>(args, shared, local, tile, thread);
  }

  // kIsAll: what the only tile sums up is all there is.
  template <int kPhase, bool kIsAll>
  KERF_DEVICE_CODE static void Step(const Args& args, Shared& shared, Local& local, unsigned tile,
                                    unsigned thread) {
    const std::uint32_t index = tile * kScanTileItems + thread;
    const std::uint32_t count = Source::ItemCount(args);
    if constexpr (kPhase < kGatherPhases) {
      Source::Gather(args, shared.gathered, tile, thread);
    } else if constexpr (kPhase == kGatherPhases) {
      if constexpr (GathersTile<Source>) {
        local.item = Source::Item(shared.gathered, thread);
      } else {
        local.item = index < count ? Source::Item(args, index) : 0;
      }
      shared.scan.Put(thread, local.item);
    } else if constexpr (kPhase == kGatherPhases + 1) {
      shared.scan.SumGroups(thread);
    } else {
      const std::uint32_t before = shared.scan.Before(thread);
      const PrefixSums result = Source::Sums(args);
      if (index < count) result.items[index] = before;
      if (thread != kScanTileItems - 1) return;
      if (kIsAll && count <= kScanTileItems) {
        result.totals[0] = 0;
        SetSum<Source>(args, before + local.item);
      } else {
        result.totals[tile] = before + local.item;
      }
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
  KERF_DEVICE_CODE static std::size_t MostTiles(const Args&) { return 1; }
  KERF_DEVICE_CODE static void Begin(const Args&, Shared&, unsigned) {}

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned,
                                     unsigned thread) {
    Step<kPhase>(args, shared.scan, thread);
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Step(const Args& args, BlockScan<kBlockThreads>& scan,
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
      scan.Put(thread, sum);
    } else if constexpr (kPhase == 1) {
      scan.SumGroups(thread);
    } else {
      std::uint32_t sum = scan.Before(thread);
      for (std::uint32_t index = first; index < last; ++index) {
        const std::uint32_t total = totals[index];
        totals[index] = sum;
        sum += total;
      }
      if (thread == kBlockThreads - 1) SetSum<Source>(args, sum);
    }
  }
};

// Both in one launch: the last block to finish its tiles sums up the totals, if there is more than
// one. Of a source that says as well
//   static std::size_t MostItems(const Args& args);   // as far as the host knows
//   static std::uint32_t* BlocksDone(const Args& args);   // as portable.h has it
template <class Source>
struct Scan : ScanTiles<Source> {
  using Args = typename Source::Args;
  using Shared = typename ScanTiles<Source>::Shared;
  using Local = typename ScanTiles<Source>::Local;
  static constexpr int kLastPhaseCount = ScanTotals<Source>::kPhaseCount;
  static_assert(ScanTotals<Source>::kBlockThreads == ScanTiles<Source>::kBlockThreads);

  // No items have a sum, too.
  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return Max(1, ScanTiles<Source>::TileCount(args));
  }
  KERF_DEVICE_CODE static std::size_t MostTiles(const Args& args) {
    return Max(1, static_cast<std::uint32_t>(ScanTileCount(Source::MostItems(args))));
  }
  KERF_DEVICE_CODE static std::uint32_t* BlocksDone(const Args& args) {
    return Source::BlocksDone(args);
  }
  KERF_DEVICE_CODE static bool HasLast(const Args& args) {
    return Source::ItemCount(args) > kScanTileItems;
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
                                     unsigned thread) {
    ScanTiles<Source>::template Step<kPhase, true>(args, shared, local, tile, thread);
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void LastPhase(const Args& args, Shared& shared, unsigned thread) {
    ScanTotals<Source>::template Step<kPhase>(args, shared.scan, thread);
  }
};

}  // namespace kerf::cuda
