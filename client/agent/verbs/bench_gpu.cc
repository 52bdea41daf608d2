#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/version.h"
#include "client/agent/verbs/program_folder.h"
#include "client/agent/verbs/verbs.h"
#include "kernels/cuda/bench/gpu_bench.h"
#include "kernels/cuda/bench/gpu_report.h"
#include "kernels/cuda/plugin/plugin.h"

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

struct GpuFlags {
  std::string plugin;
  std::uint32_t device = 0;
  cuda::GpuBenchOptions options;
};

// Why there is no GPU is Unavailable, and so is a plug-in that is not there.
absl::StatusOr<cuda::Plugin> LoadPlugin(const std::string& path) {
  auto plugin = cuda::Plugin::Load(path);
  if (absl::IsNotFound(plugin.status())) {
    return absl::UnavailableError(
        Cat(MessageOf(plugin.status()),
            "; tools/build leaves it beside kerf where there is a CUDA toolkit"));
  }
  if (!plugin.ok()) return plugin;
  const absl::Status status = plugin->CountDevices().status();
  if (status.ok()) return plugin;
  return absl::UnavailableError(Cat("there is no GPU that can be used: ", MessageOf(status)));
}

ExitCode Run(Context& context, const GpuFlags& flags) {
  Reporter& reporter = context.reporter;
  const std::string path =
      flags.plugin.empty() ? Cat(ProgramFolder(), "libkerf_cuda.so") : flags.plugin;
  const auto plugin = LoadPlugin(path);
  if (!plugin.ok()) return FailWith(context, plugin.status());
  const auto open = [&]() { return plugin->Open(flags.device); };
  cuda::DeviceInfo info;
  {
    const auto device = open();
    if (!device.ok()) return FailWith(context, device.status());
    info = (*device)->info();
  }
  reporter.Result(absl::StrFormat("%s, %.1f GiB", info.name,
                                  static_cast<double>(info.memory_bytes) / (1 << 30)));
  reporter.Result(cuda::GpuFigureHeading());
  std::uint64_t figure_count = 0;
  const absl::Status status =
      cuda::RunGpuBench(open, flags.options, context.cancelled, [&](const cuda::GpuFigure& figure) {
        reporter.Json("figure", cuda::GpuFigureJson(figure));
        reporter.Result(cuda::GpuFigureLine(figure));
        ++figure_count;
      });
  if (context.cancelled) return ExitCode::kInterrupted;
  if (absl::IsInvalidArgument(status)) {
    reporter.Error(status);
    return ExitCode::kUsage;
  }
  if (!status.ok()) return FailWith(context, status);
  reporter.Json("summary", {{"benchmark", "gpu"},
                            {"version", kVersion},
                            {"device", info.name},
                            {"device_memory_bytes", info.memory_bytes},
                            {"figures", figure_count}});
  return ExitCode::kOk;
}

}  // namespace

void AddBenchGpu(Context& context, const Verb& bench_verb) {
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
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
