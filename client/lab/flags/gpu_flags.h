// The flags of `kerf bench gpu`.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/context.h"
#include "kernels/cuda/bench/gpu_bench_options.h"

namespace kerf::agent {

struct GpuFlags {
  std::string plugin;
  std::uint32_t device = 0;
  cuda::GpuBenchOptions options;
};

void AddBenchGpu(Context& context, const Verb& bench_verb,
                 ExitCode (*run)(Context&, const GpuFlags&));

}  // namespace kerf::agent
