// Mutants (kernels.h) that change nothing of what a kernel does but how long it takes: nobody can
// notice them, and each has its proof.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/cuda/ptx/kernels.h"

namespace kerf::cuda::ptx {

// Those of one kind in a kernel from `first` to `last`, of so many that it has: with another number
// nvcc has made something else of the kernel, and the proof is to be looked at again.
struct EquivalentMutants {
  // As kernels/cuda/sass_limits.txt names it.
  std::string_view kernel;
  std::string_view kind;
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t count;
  std::string_view why;
};

std::span<const EquivalentMutants> AllEquivalentMutants();

// A kernel's name there, of what the linker calls it.
std::string NameInLimits(const char* linker_name);

bool IsOneOf(const EquivalentMutants& equivalent, const Mutant& mutant);

}  // namespace kerf::cuda::ptx
