#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/version.h"
#include "client/cli/find_program.h"
#include "client/lab/verbs/lab_runs.h"
#include "kernels/cuda/bench/gpu_bench.h"
#include "kernels/cuda/bench/gpu_report.h"
#include "kernels/cuda/plugin/plugin.h"

namespace kerf::agent {
namespace {

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

}  // namespace

ExitCode RunBenchGpu(Context& context, const GpuFlags& flags) {
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
  const auto left_out =
      cuda::RunGpuBench(open, flags.options, context.cancelled, [&](const cuda::GpuFigure& figure) {
        reporter.Json("figure", cuda::GpuFigureJson(figure));
        reporter.Result(cuda::GpuFigureLine(figure));
        ++figure_count;
      });
  if (context.cancelled) return ExitCode::kInterrupted;
  if (absl::IsInvalidArgument(left_out.status())) {
    reporter.Error(left_out.status());
    return ExitCode::kUsage;
  }
  if (!left_out.ok()) return FailWith(context, left_out.status());
  if (!left_out->is_empty()) {
    reporter.Result(Cat("this GPU cannot run ", left_out->Text()));
  }
  reporter.Json("summary", {{"benchmark", "gpu"},
                            {"version", kVersion},
                            {"device", info.name},
                            {"device_memory_bytes", info.memory_bytes},
                            {"figures", figure_count},
                            {"left_out", left_out->Text()}});
  return ExitCode::kOk;
}

}  // namespace kerf::agent
