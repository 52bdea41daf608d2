#include "client/lab/flags/kernel_flags.h"

#include <memory>

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf bench kernels\n"
    "  kerf bench kernels --algorithm ram fastcdc2020-8k blake3 --data random,text,zeros\n"
    "  kerf bench kernels --algorithm mincdc:min=4096,max=12288 --backend avx512 --json\n"
    "  kerf bench kernels --algorithm maxcdc-8k+blake3   # in one pass (fused), and apart\n"
    "  kerf bench kernels --algorithm blake3/1           # one chunk a call, in the place of 64\n\n"
    "Every figure is that of one thread. `share` is that of the speed at which the same core "
    "loads\n"
    "the same bytes and does nothing else. A backend whose cuts or digests are not the "
    "reference's\n"
    "ends the run.";

}  // namespace

void AddBenchKernels(Context& context, const Verb& bench_verb,
                     ExitCode (*run)(Context&, const KernelFlags&)) {
  const Verb verb = bench_verb.AddVerb(
      "kernels", "Every algorithm and backend on one core, beside reading alone", kExamples);
  auto flags = std::make_shared<KernelFlags>();
  bench::KernelOptions& options = flags->options;
  verb.AddOption(
          "--algorithm", options.algorithms,
          "Profiles, algorithms (for their profile of 8 KiB), digests, PROFILE+DIGEST; else all")
      .Check(RefuseEmpty);
  verb.AddOption("--backend", options.backend, "Only this one").Check(RefuseEmpty);
  verb.AddOption("--size", flags->size, "What is read from memory: several times the caches")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--data", options.data, "random, text, zeros").Delimiter(',').ShowDefault();
  verb.AddOption("--rounds", options.rounds, "Each figure is the best of so many")
      .Range(1u, 1000u)
      .ShowDefault();
  verb.OnRun([&context, flags, run] { return run(context, *flags); });
}

}  // namespace kerf::agent
