// The flags of `kerf bench kernels`.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/context.h"
#include "kernels/bench/kernel_options.h"

namespace kerf::agent {

struct KernelFlags {
  std::string size = "256M";
  bench::KernelOptions options;
};

void AddBenchKernels(Context& context, const Verb& bench_verb,
                     ExitCode (*run)(Context&, const KernelFlags&));

}  // namespace kerf::agent
