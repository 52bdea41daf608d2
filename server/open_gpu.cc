#include "server/open_gpu.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "kernels/cuda/plugin/plugin.h"
#include "kernels/registry.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

constexpr const char* kPluginName = "libkerf_cuda.so";
// More are of no use: some are copied in, one runs, some are copied out.
constexpr std::size_t kMaxSlots = 8;

std::string PluginPath(const Settings& settings) {
  if (!settings.gpu_plugin.empty()) return settings.gpu_plugin;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? kPluginName : (self.parent_path() / kPluginName).string();
}

cuda::GpuCutterOptions OptionsOf(const Settings& settings) {
  cuda::GpuCutterOptions options;
  const std::size_t each_bytes = cuda::SlotDeviceBytes(options.slot);
  options.slot_count =
      std::clamp<std::size_t>(settings.gpu_memory_bytes / each_bytes, 1, kMaxSlots);
  return options;
}

absl::StatusOr<std::unique_ptr<cuda::GpuCutter>> Open(
    const std::string& path, const Settings& settings,
    std::function<void(const absl::Status& why)> on_lost) {
  KERF_ASSIGN_OR_RETURN(const cuda::Plugin plugin, cuda::Plugin::Load(path));
  KERF_ASSIGN_OR_RETURN(const std::uint32_t count, plugin.CountDevices());
  if (count == 0) return absl::UnavailableError("this machine has no GPU");
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> device, plugin.Open(0));
  cuda::GpuCutterOptions options = OptionsOf(settings);
  options.on_lost = std::move(on_lost);
  const std::string name = device->info().name;
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<cuda::GpuCutter> gpu,
                        cuda::GpuCutter::Start(std::move(device), std::move(options)));
  const std::size_t min_bytes = gpu->min_piece_bytes();
  Log(LogLevel::kInfo,
      min_bytes == std::numeric_limits<std::size_t>::max()
          ? Cat("GPU 0 of ", count, ", ", name, ", is slower than the CPU and cuts nothing")
          : Cat("GPU 0 of ", count, ", ", name, ", cuts pieces of ", FormatByteSize(min_bytes),
                " and more"));
  return gpu;
}

}  // namespace

absl::StatusOr<std::unique_ptr<cuda::GpuCutter>> OpenGpu(
    const Settings& settings, std::function<void(const absl::Status& why)> on_lost) {
  const bool is_required = settings.gpu == GpuUse::kRequire;
  // Who names a backend of the CPU wants that one.
  if (settings.gpu == GpuUse::kOff || (!is_required && settings.backend != kAutomaticBackend)) {
    return nullptr;
  }
  const std::string path = PluginPath(settings);
  auto gpu = Open(path, settings, std::move(on_lost));
  if (gpu.ok()) return gpu;
  if (is_required) return Annotate(gpu.status(), "--gpu require");
  // A kerfd that came without one is complete.
  const bool is_expected = absl::IsNotFound(gpu.status()) && settings.gpu_plugin.empty();
  Log(is_expected ? LogLevel::kDebug : LogLevel::kWarning,
      Cat("no GPU, the CPU cuts: ", MessageOf(gpu.status())));
  return nullptr;
}

}  // namespace kerf
