// Runs a kernel (the contract is in kernels/cuda/launch/portable.h) on the CPU, for tests and under
// the sanitizers: slow, and the same answer as a GPU's, or the kernel depends on an order that
// nobody promises.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

struct EmulatorOptions {
  // Blocks that take turns at the tiles; at least 1.
  unsigned block_count = 2;
  // Of the order in which tiles, and threads within a phase, run; none: ascending.
  std::optional<std::uint64_t> order_seed = std::nullopt;
  // A thread of the system for each thread of a block, so that the thread sanitizer sees a barrier
  // that is missing. Blocks run one after another all the same.
  bool has_real_threads = false;
};

namespace emulator_internal {

inline std::vector<unsigned> Order(unsigned count, Random* random) {
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (random != nullptr) {
    for (unsigned index = count; index > 1; --index) {
      std::swap(order[index - 1], order[random->Below(index)]);
    }
  }
  return order;
}

template <class Kernel, int kPhase>
void RunPhase(const typename Kernel::Args& args, typename Kernel::Shared& shared,
              typename Kernel::Local& local, unsigned tile, unsigned thread) {
  Kernel::template Phase<kPhase>(args, shared, local, tile, thread);
}

template <class Kernel, int kPhase>
void RunLastPhase(const typename Kernel::Args& args, typename Kernel::Shared& shared,
                  unsigned thread) {
  Kernel::template LastPhase<kPhase>(args, shared, thread);
}

// Calls visit(integral_constant<int, 0>), visit(integral_constant<int, 1>), ...
template <int kCount, class Visit>
void ForEachPhase(Visit visit) {
  [&]<int... kPhases>(std::integer_sequence<int, kPhases...>) {
    (visit(std::integral_constant<int, kPhases>()), ...);
  }(std::make_integer_sequence<int, kCount>());
}

template <class Kernel>
bool IsAnotherRound(const typename Kernel::Args& args, const typename Kernel::Shared& shared) {
  if constexpr (HasRounds<Kernel>) return Kernel::Again(args, shared);
  return false;
}

// Tiles of one block, its threads taking turns.
template <class Kernel>
void RunBlockInTurns(const typename Kernel::Args& args, const std::vector<unsigned>& tiles,
                     Random* random) {
  const auto shared = std::make_unique_for_overwrite<typename Kernel::Shared>();
  for (unsigned thread : Order(Kernel::kBlockThreads, random)) Kernel::Begin(args, *shared, thread);
  for (unsigned tile : tiles) {
    std::vector<typename Kernel::Local> locals(Kernel::kBlockThreads);
    do {
      ForEachPhase<Kernel::kPhaseCount>([&](auto phase) {
        for (unsigned thread : Order(Kernel::kBlockThreads, random)) {
          RunPhase<Kernel, phase()>(args, *shared, locals[thread], tile, thread);
        }
      });
    } while (IsAnotherRound<Kernel>(args, *shared));
  }
}

// Calls body(0), body(1), ... in threads of their own; without the type of `body`, which a compiler
// would make a thread of for each kernel.
inline void RunThreads(unsigned count, const std::function<void(unsigned)>& body) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  for (unsigned thread = 0; thread < count; ++thread) {
    threads.emplace_back([&body, thread] { body(thread); });
  }
}

// The same as RunBlockInTurns with a thread of the system for each of the block's.
template <class Kernel>
void RunBlockInThreads(const typename Kernel::Args& args, const std::vector<unsigned>& tiles) {
  const auto shared = std::make_unique_for_overwrite<typename Kernel::Shared>();
  std::barrier barrier(Kernel::kBlockThreads);
  RunThreads(Kernel::kBlockThreads, [&](unsigned thread) {
    Kernel::Begin(args, *shared, thread);
    for (unsigned tile : tiles) {
      typename Kernel::Local local{};
      do {
        ForEachPhase<Kernel::kPhaseCount>([&](auto phase) {
          barrier.arrive_and_wait();
          RunPhase<Kernel, phase()>(args, *shared, local, tile, thread);
        });
        barrier.arrive_and_wait();
      } while (IsAnotherRound<Kernel>(args, *shared));
    }
  });
}

// What the last block does behind its tiles, with whatever they left in its shared memory.
template <class Kernel>
void RunLastBlock(const typename Kernel::Args& args, const EmulatorOptions& options,
                  Random* random) {
  const auto shared = std::make_unique_for_overwrite<typename Kernel::Shared>();
  if (options.has_real_threads) {
    std::barrier barrier(Kernel::kBlockThreads);
    RunThreads(Kernel::kBlockThreads, [&](unsigned thread) {
      ForEachPhase<Kernel::kLastPhaseCount>([&](auto phase) {
        barrier.arrive_and_wait();
        RunLastPhase<Kernel, phase()>(args, *shared, thread);
      });
    });
  } else {
    ForEachPhase<Kernel::kLastPhaseCount>([&](auto phase) {
      for (unsigned thread : Order(Kernel::kBlockThreads, random)) {
        RunLastPhase<Kernel, phase()>(args, *shared, thread);
      }
    });
  }
}

}  // namespace emulator_internal

// Returns when the kernel has run. Not for two launches at once that share what they write.
template <class Kernel>
void Emulate(const typename Kernel::Args& args, const EmulatorOptions& options = {}) {
  static_assert(kIsKernel<Kernel>);
  KERF_CHECK(options.block_count > 0);
  std::optional<Random> random;
  if (options.order_seed.has_value()) random.emplace(*options.order_seed);
  Random* const source = random.has_value() ? &*random : nullptr;
  const std::vector<unsigned> tiles = emulator_internal::Order(Kernel::TileCount(args), source);
  if constexpr (HasMostTiles<Kernel>) KERF_CHECK(tiles.size() <= Kernel::MostTiles(args));
  // Nobody counts blocks here; on a GPU the last one would not know that it is.
  if constexpr (HasLastPhases<Kernel>) KERF_CHECK(*Kernel::BlocksDone(args) == 0);
  for (unsigned block : emulator_internal::Order(options.block_count, source)) {
    std::vector<unsigned> own;
    for (std::size_t index = block; index < tiles.size(); index += options.block_count) {
      own.push_back(tiles[index]);
    }
    if (options.has_real_threads) {
      emulator_internal::RunBlockInThreads<Kernel>(args, own);
    } else {
      emulator_internal::RunBlockInTurns<Kernel>(args, own, source);
    }
  }
  if constexpr (HasLastPhases<Kernel>) {
    if (Kernel::HasLast(args)) emulator_internal::RunLastBlock<Kernel>(args, options, source);
  }
}

// Runs kernels one after another, for what calls launcher.Launch<Kernel>(args).
struct EmulatorLauncher {
  const EmulatorOptions& options;

  template <class Kernel>
  void Launch(const typename Kernel::Args& args) {
    Emulate<Kernel>(args, options);
  }
};

}  // namespace kerf::cuda
