#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/cli/cut_flags.h"
#include "client/lab/verbs/lab_runs.h"
#include "kernels/bench/kernel_bench.h"
#include "kernels/registry.h"

namespace kerf::agent {
namespace {

using bench::KernelFigure;
using bench::KernelOptions;

constexpr std::uint64_t kMaxSizeBytes = 16 * kGiB;

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

}  // namespace

ExitCode RunBenchKernels(Context& context, const KernelFlags& flags) {
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

}  // namespace kerf::agent
