// The verbs of the laboratory. `kerf` has them to show, to complete and to check; kerf-lab to do
// what they say. Both declare them here, so that they cannot differ.
#pragma once

#include "client/cli/context.h"
#include "client/lab/flags/analyze_flags.h"
#include "client/lab/flags/gpu_flags.h"
#include "client/lab/flags/kernel_flags.h"
#include "client/lab/flags/rapid_flags.h"
#include "client/lab/flags/service_flags.h"

namespace kerf::agent {

// What a verb does.
template <typename Flags>
using LabRun = ExitCode (*)(Context& context, const Flags& flags);

struct BenchRuns {
  LabRun<KernelFlags> bench_kernels = nullptr;
  LabRun<ServiceFlags> bench_service = nullptr;
  LabRun<RawPeerFlags> raw_peer = nullptr;
  LabRun<RapidFlags> bench_rapid = nullptr;
  LabRun<GpuFlags> bench_gpu = nullptr;
};

// AddAnalyzeVerb is in analyze_flags.h.
void AddBenchVerb(Context& context, const BenchRuns& runs);

}  // namespace kerf::agent
