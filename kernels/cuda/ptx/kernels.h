// Kernels as translate.py makes them of PTX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kerf::cuda::ptx {

class Machine;
struct Thread;

// Where a thread has stopped.
enum class Stop : std::uint8_t { kExit, kBarrier, kEndless };

// An instruction that touches memory.
struct Site {
  // Of the PTX.
  std::uint32_t line;
  const char* text;
};

struct Kernel {
  // As the linker calls it.
  const char* name;
  std::uint32_t args_bytes;
  // What a thread keeps at a barrier at most, in words of 8 bytes.
  std::uint32_t kept_words;
  // Less than a word of its shared memory is written at once.
  bool has_small_shared_stores;
  std::span<const Site> sites;
  // From where the thread has stopped last to its next barrier, or to the end.
  Stop (*run)(Machine& machine, Thread& thread);
  // Of each run of instructions that nothing jumps into or out of, in the order of the text: how
  // many they are. Empty: it was not translated with --counts.
  std::span<const std::uint32_t> block_instructions = {};
};

// Something that can be changed when a kernel runs, for tests to find out who notices.
struct Mutant {
  const char* kernel;
  std::uint32_t line;
  // "barrier", or the mask, as "0x1f".
  const char* kind;
  // Which one of that kind in the kernel, from 1, and of how many.
  std::uint32_t place;
  std::uint32_t count;
  const char* what;
};

// Of one file of PTX.
struct ModuleKernels {
  const char* file;
  std::span<const Kernel> kernels;
  // Of each variable in shared memory that has a name.
  std::span<const std::uint32_t> static_shared_bytes;
  // Number 1 is the first.
  std::span<const Mutant> mutants;
};

}  // namespace kerf::cuda::ptx
