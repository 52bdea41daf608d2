#include "client/lab/flags/gpu_flags.h"

#include <memory>

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf bench gpu\n"
    "  kerf bench gpu --profile fastcdc-8k --json > gpu.json\n"
    "  kerf bench gpu --plugin /usr/lib/kerf/libkerf_cuda.so --device 1\n\n"
    "Results are compared with the CPU's before anything is measured. `marks`, `cuts` and "
    "`digests`\n"
    "are kernels on what lies in the GPU's memory; `end-to-end` is from pinned memory to chunks "
    "and\n"
    "digests there, four batches on their way; `latency` one batch; `cpu` one core. A GB is 10^9 "
    "bytes.\n"
    "Ends with 5 where there is no GPU that can be used.";

}  // namespace

void AddBenchGpu(Context& context, const Verb& bench_verb,
                 ExitCode (*run)(Context&, const GpuFlags&)) {
  const Verb verb = bench_verb.AddVerb(
      "gpu", "A GPU's copies and kernels, and all of it, beside one core", kExamples);
  auto flags = std::make_shared<GpuFlags>();
  verb.AddOption("--plugin", flags->plugin, "The CUDA plug-in; else libkerf_cuda.so beside kerf")
      .Check(RefuseEmpty)
      .Type("PATH");
  verb.AddOption("--device", flags->device, "The GPU's number").ShowDefault();
  verb.AddOption("--profile", flags->options.profiles, "A profile that has kernels (repeatable)")
      .Repeat()
      .Check(RefuseEmpty)
      .ShowDefault();
  verb.AddOption("--rounds", flags->options.rounds, "Each figure is the median of so many")
      .Range(1u, 1000u)
      .ShowDefault();
  verb.OnRun([&context, flags, run] { return run(context, *flags); });
}

}  // namespace kerf::agent
