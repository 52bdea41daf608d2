// What a kernel needs of a GPU and a CPU must imitate: the same source is compiled by nvcc for the
// device and by the host's compiler for the emulator (kernels/cuda/launch/emulator.h), which runs
// it under the sanitizers.
//
// A kernel is a struct of phases:
//
//   struct Marks {
//     struct Args {...};     // a plain value: device addresses and numbers, at most 4 KiB
//     struct Shared {...};   // a block's shared memory, not initialised; at most 64 KiB for
//                            // every GPU to have it, else kMaxSharedBytes;
//                            // aligned to at most 16
//     struct Local {...};    // a thread's own from phase to phase of a tile; value-initialised
//     static constexpr unsigned kBlockThreads = 256;
//     static constexpr int kPhaseCount = 3;
//     // Only of a kernel for which nvcc would rather spill than use registers: how many blocks are
//     // to fit a multiprocessor.
//     static constexpr unsigned kProcessorBlocks = 8;
//     // Only of a kernel whose blocks are in each other's way: of how many blocks of a
//     // multiprocessor a launch has room for.
//     static constexpr unsigned kMostProcessorBlocks = 1;
//
//     // How many tiles there are; may read device memory, so that one launch serves any amount.
//     static unsigned TileCount(const Args& args);
//     // Once for each block, before its first tile: tables into shared memory.
//     static void Begin(const Args& args, Shared& shared, unsigned thread);
//     template <int kPhase>
//     static void Phase(const Args& args, Shared& shared, Local& local, unsigned tile,
//                       unsigned thread);
//     // Only of a kernel whose work on a tile may take several rounds: whether the phases run once
//     // more, Local kept. The same answer for every thread of the block.
//     static bool Again(const Args& args, const Shared& shared);
//     // Or the same of what each thread knows itself, which saves a barrier a round.
//     static bool Again(const Args& args, const Local& local);
//     // Only of a kernel that goes on with what all its tiles have written: more phases, which the
//     // last block to finish its tiles runs once; and a word of device memory to count the blocks
//     // in, 0 before the launch, and again behind it.
//     static constexpr int kLastPhaseCount = 3;
//     template <int kPhase>
//     static void LastPhase(const Args& args, Shared& shared, unsigned thread);
//     static std::uint32_t* BlocksDone(const Args& args);
//     // Whether there is anything left for them to do: the same for all blocks.
//     static bool HasLast(const Args& args);
//     // Only of a kernel of so few tiles that not every block of the device would have one: how
//     // many there are at most. Reads no device memory: the host asks it.
//     static std::size_t MostTiles(const Args& args);
//   };
//
// All are KERF_DEVICE_CODE. A tile is a piece of work of one block; a block takes tile after tile.
// A barrier of the block stands after Begin, between two phases, before and after Again (where that
// asks Local, there is one between two rounds), between two tiles, and before LastPhase; within a
// phase threads and blocks run in any order, so that two threads may not touch one place in a
// phase, if one of them writes, other than through the atomic helpers below. Nothing orders the
// tiles of one launch, but its last phases see what all of them wrote; what a launch writes, the
// next one on its stream sees. There are no shuffles and no ballots: what they do goes through
// shared memory, from one phase to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__CUDACC__)
#define KERF_DEVICE_CODE __host__ __device__ __forceinline__
#else
#include <atomic>
#include <bit>
#define KERF_DEVICE_CODE inline
#endif

// In front of a loop whose count is a constant: an array that its counter indexes stays in
// registers.
#if defined(__CUDA_ARCH__)
#define KERF_UNROLL _Pragma("unroll")
#else
#define KERF_UNROLL
#endif

namespace kerf::cuda {

inline constexpr std::size_t kMaxArgsBytes = 4096;
// What a block may have of shared memory at most, on sm_90 and sm_100; sm_80 has 163 KiB, sm_86,
// sm_89 and sm_120 have 99, sm_75 has 64. Plans with a kernel that needs more than a GPU has are
// left to the CPU there.
inline constexpr std::size_t kMaxSharedBytes = 227 << 10;
inline constexpr unsigned kMaxBlockThreads = 1024;

// Whether a kernel is one that can be launched.
template <class Kernel>
inline constexpr bool kIsKernel =
    std::is_trivially_copyable_v<typename Kernel::Args> &&
    sizeof(typename Kernel::Args) <= kMaxArgsBytes &&
    std::is_trivially_destructible_v<typename Kernel::Shared> &&
    sizeof(typename Kernel::Shared) <= kMaxSharedBytes && alignof(typename Kernel::Shared) <= 16 &&
    Kernel::kBlockThreads % 32 == 0 && Kernel::kBlockThreads <= kMaxBlockThreads &&
    Kernel::kPhaseCount > 0;

// What a launch gives a block of shared memory: ptxas may load sixteen bytes of which the kernel
// needs the first, and must find them.
template <class Kernel>
constexpr std::size_t GivenSharedBytes() {
  constexpr std::size_t kVectorBytes = 16;
  static_assert(kMaxSharedBytes % kVectorBytes == 0);
  return (sizeof(typename Kernel::Shared) + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
}

// Sixteen bytes that are loaded and stored at once.
struct alignas(16) Vector16 {
  std::uint32_t words[4];
};

KERF_DEVICE_CODE unsigned PopCount(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__popc(static_cast<int>(word)));
#elif defined(__CUDACC__)
  return static_cast<unsigned>(__builtin_popcount(word));
#else
  return static_cast<unsigned>(std::popcount(word));
#endif
}

// The number of the lowest bit that is set; `word` is not 0.
KERF_DEVICE_CODE unsigned LowestBit(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__ffs(static_cast<int>(word)) - 1);
#else
  return static_cast<unsigned>(__builtin_ctz(word));
#endif
}

// The number of the highest bit that is set; `word` is not 0.
KERF_DEVICE_CODE unsigned HighestBit(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(31 - __clz(static_cast<int>(word)));
#else
  return static_cast<unsigned>(31 - __builtin_clz(word));
#endif
}

// The low word of (high:low) >> `shift`, 0 to 31.
KERF_DEVICE_CODE std::uint32_t FunnelShiftRight(std::uint32_t low, std::uint32_t high,
                                                unsigned shift) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, shift);
#else
  return static_cast<std::uint32_t>(((std::uint64_t{high} << 32) | low) >> (shift & 31));
#endif
}

KERF_DEVICE_CODE std::uint32_t RotateRight(std::uint32_t word, unsigned shift) {
  return FunnelShiftRight(word, word, shift);
}

// Byte i of the result is the byte of (high:low) that nibble i of `selector` names, 0 to 7.
KERF_DEVICE_CODE std::uint32_t PermuteBytes(std::uint32_t low, std::uint32_t high,
                                            std::uint32_t selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(low, high, selector);
#else
  const std::uint64_t both = (std::uint64_t{high} << 32) | low;
  std::uint32_t result = 0;
  for (unsigned index = 0; index < 4; ++index) {
    const unsigned source = selector >> (4 * index) & 7;
    result |= static_cast<std::uint32_t>(both >> (8 * source) & 0xFF) << (8 * index);
  }
  return result;
#endif
}

// a + b where the pipe for shifts, logic and additions of integers is full: that for
// multiplications is another one. `one` is 1, of which the compiler must not know.
KERF_DEVICE_CODE std::uint32_t AddByMultiplying(std::uint32_t a, std::uint32_t one,
                                                std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  std::uint32_t sum;
  asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(one), "r"(b));
  return sum;
#else
  return a * one + b;
#endif
}

// Bytes that no kernel of this launch writes. `address` is a multiple of 16.
KERF_DEVICE_CODE Vector16 LoadReadOnly16(const std::uint8_t* address) {
#if defined(__CUDA_ARCH__)
  const uint4 loaded = __ldg(reinterpret_cast<const uint4*>(address));
  return {{loaded.x, loaded.y, loaded.z, loaded.w}};
#else
  Vector16 result;
  std::memcpy(&result, address, sizeof result);
  return result;
#endif
}

// The same, for a thread that goes on from there: the line of 128 bytes comes from the device's
// memory at once.
KERF_DEVICE_CODE Vector16 LoadInOrder16(const std::uint8_t* address) {
#if defined(__CUDA_ARCH__)
  Vector16 loaded;
  asm("ld.global.nc.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(loaded.words[0]), "=r"(loaded.words[1]), "=r"(loaded.words[2]), "=r"(loaded.words[3])
      : "l"(__cvta_generic_to_global(address)));
  return loaded;
#else
  return LoadReadOnly16(address);
#endif
}

// `address` is a multiple of 16.
KERF_DEVICE_CODE void Store16(void* address, const Vector16& vector) {
#if defined(__CUDA_ARCH__)
  *static_cast<uint4*>(address) =
      make_uint4(vector.words[0], vector.words[1], vector.words[2], vector.words[3]);
#else
  std::memcpy(address, &vector, sizeof vector);
#endif
}

// The following are atomic and order nothing else; other threads' plain accesses to the same place
// within the launch are races. Each returns what was there before.
KERF_DEVICE_CODE std::uint32_t AtomicAdd(std::uint32_t* place, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(place, value);
#elif defined(__CUDACC__)
  return __atomic_fetch_add(place, value, __ATOMIC_RELAXED);
#else
  return std::atomic_ref(*place).fetch_add(value, std::memory_order_relaxed);
#endif
}

KERF_DEVICE_CODE std::uint32_t AtomicOr(std::uint32_t* place, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  return atomicOr(place, value);
#elif defined(__CUDACC__)
  return __atomic_fetch_or(place, value, __ATOMIC_RELAXED);
#else
  return std::atomic_ref(*place).fetch_or(value, std::memory_order_relaxed);
#endif
}

KERF_DEVICE_CODE std::uint32_t AtomicMin(std::uint32_t* place, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  return atomicMin(place, value);
#elif defined(__CUDACC__)
  std::uint32_t before = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (value < before && !__atomic_compare_exchange_n(place, &before, value, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
#else
  std::atomic_ref shared(*place);
  std::uint32_t before = shared.load(std::memory_order_relaxed);
  while (value < before &&
         !shared.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
  return before;
#endif
}

KERF_DEVICE_CODE std::uint32_t AtomicMax(std::uint32_t* place, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  return atomicMax(place, value);
#elif defined(__CUDACC__)
  std::uint32_t before = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (value > before && !__atomic_compare_exchange_n(place, &before, value, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
#else
  std::atomic_ref shared(*place);
  std::uint32_t before = shared.load(std::memory_order_relaxed);
  while (value > before &&
         !shared.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
  return before;
#endif
}

// The kernels' own, since nvcc has std::min and std::max on the device only when told so.
KERF_DEVICE_CODE std::uint32_t Min(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }
KERF_DEVICE_CODE std::uint32_t Max(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }

// 0 if the kernel does not say it.
template <class Kernel>
constexpr unsigned ProcessorBlocks() {
  if constexpr (requires { Kernel::kProcessorBlocks; }) {
    return Kernel::kProcessorBlocks;
  } else {
    return 0;
  }
}

// 0 if the kernel does not say it.
template <class Kernel>
constexpr unsigned MostProcessorBlocks() {
  if constexpr (requires { Kernel::kMostProcessorBlocks; }) {
    return Kernel::kMostProcessorBlocks;
  } else {
    return 0;
  }
}

// Whether a kernel has a function Again of Shared.
template <class Kernel>
concept HasRounds =
    requires(const typename Kernel::Args& args, const typename Kernel::Shared& shared) {
      Kernel::Again(args, shared);
    };

// The same of Local.
template <class Kernel>
concept HasLocalRounds =
    requires(const typename Kernel::Args& args, const typename Kernel::Local& local) {
      Kernel::Again(args, local);
    };

// Whether a kernel has phases for the last block.
template <class Kernel>
concept HasLastPhases = requires { Kernel::kLastPhaseCount; };

// Whether a kernel says how many tiles it has at most.
template <class Kernel>
concept HasMostTiles = requires(const typename Kernel::Args& args) { Kernel::MostTiles(args); };

}  // namespace kerf::cuda
