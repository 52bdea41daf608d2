#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/cut_flags.h"
#include "client/agent/verbs/verbs.h"
#include "kernels/bench/kernel_bench.h"
#include "kernels/registry.h"

namespace kerf::agent {
namespace {

using bench::KernelFigure;
using bench::KernelOptions;

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

constexpr std::uint64_t kMaxSizeBytes = 16 * kGiB;

struct KernelFlags {
  std::string size = "256M";
  KernelOptions options;
};

void Print(Reporter& reporter, const KernelFigure& figure) {
  reporter.Json("figure", {{"name", figure.name},
                           {"algorithm", figure.algorithm},
                           {"backend", figure.backend},
                           {"source", figure.source},
                           {"data", figure.data},
                           {"bytes_per_second", figure.bytes_per_second},
                           {"ceiling_bytes_per_second", figure.ceiling_bytes_per_second},
                           {"share_of_ceiling", figure.share_of_ceiling()},
                           {"average_chunk_bytes", figure.average_chunk_bytes},
                           {"checked", true}});
  reporter.Result(absl::StrFormat("%-22s %-10s %-6s %-4s %8.2f GB/s %6.2f %9.0f", figure.name,
                                  figure.backend, figure.data, figure.source,
                                  figure.bytes_per_second / 1e9, figure.share_of_ceiling(),
                                  figure.average_chunk_bytes));
}

ExitCode Run(Context& context, const KernelFlags& flags) {
  KernelOptions options = flags.options;
  const auto size_bytes = ParseSizeFlag("--size", flags.size, bench::kCachedBytes, kMaxSizeBytes);
  if (!size_bytes.ok()) return FailUsage(context, size_bytes.status());
  options.size_bytes = *size_bytes;
  if (options.backend == kAutomaticBackend) options.backend.clear();
  Reporter& reporter = context.reporter;
  reporter.Result(absl::StrFormat("%-22s %-10s %-6s %-4s %13s %6s %9s", "algorithm", "backend",
                                  "data", "from", "speed", "share", "average"));
  std::uint64_t figure_count = 0;
  const absl::Status status =
      bench::RunKernelBench(options, context.cancelled, [&](const KernelFigure& figure) {
        Print(reporter, figure);
        ++figure_count;
      });
  if (context.cancelled) return ExitCode::kInterrupted;
  if (absl::IsInvalidArgument(status)) return FailUsage(context, status);
  if (!status.ok()) return FailWith(context, status);
  reporter.Json("summary", {{"figures", figure_count}});
  return ExitCode::kOk;
}

}  // namespace

void AddBenchKernels(Context& context, const Verb& bench_verb) {
  const Verb verb = bench_verb.AddVerb(
      "kernels", "Every algorithm and backend on one core, beside reading alone", kExamples);
  auto flags = std::make_shared<KernelFlags>();
  KernelOptions& options = flags->options;
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
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
