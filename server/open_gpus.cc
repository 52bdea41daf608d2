#include "server/open_gpus.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "kernels/cuda/plugin/plugin.h"
#include "kernels/profile.h"
#include "kernels/registry.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

constexpr const char* kPluginName = "libkerf_cuda.so";
// More are of no use: some are copied in, one runs, some are copied out.
constexpr std::size_t kMaxSlots = 8;
// Of a batch: into smaller ones the largest chunks of the named profiles do not fit.
constexpr std::size_t kMinBatchBytes = 256 * kKiB;

std::string PluginPath(const GpuSettings& settings) {
  if (!settings.plugin.empty()) return settings.plugin;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? kPluginName : (self.parent_path() / kPluginName).string();
}

absl::StatusOr<std::unique_ptr<cuda::GpuCutter>> OpenOne(const GpuSource& source,
                                                         std::uint32_t number,
                                                         cuda::GpuCutterOptions options,
                                                         const GpuLost& on_lost) {
  if (number >= source.count) {
    return absl::UnavailableError(
        ToAbsl(Cat("this machine has ", source.count,
                   ", counted from 0: set --gpu-devices to some of them, or to all")));
  }
  options.on_lost = [number, on_lost](const absl::Status& why) { on_lost(number, why); };
  options.on_slow_load = [number, most = options.load.most] {
    Log(LogLevel::kInfo,
        Cat("GPU ", number, " is still loading its kernels, for which a driver that has ",
            "to compile them gets ", most.count() / 1'000, " s"));
  };
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> device, source.open(number));
  return cuda::GpuCutter::Start(std::move(device), std::move(options));
}

// Pieces of nearly all profiles are not larger: only where one chunk may have more than half of it.
std::size_t UsualPieceBytes(std::size_t batch_bytes) {
  return std::min(batch_bytes, kGpuPieceBytes);
}

void LogOpened(const GpuSource& source, std::uint32_t number, const cuda::GpuCutter& gpu,
               bool is_measured) {
  // Who sets a size wants it to be of use.
  const bool is_odd =
      !is_measured && gpu.min_piece_bytes() > UsualPieceBytes(gpu.max_piece_bytes());
  Log(is_odd ? LogLevel::kWarning : LogLevel::kInfo,
      Cat("GPU ", number, " of ", source.count, ", ", gpu.device_info().name, ", ",
          WhatAGpuCuts(gpu.min_piece_bytes(), gpu.max_piece_bytes(), is_measured)));
  if (gpu.left_out().is_empty()) return;
  Log(LogLevel::kInfo,
      Cat("GPU ", number, " cannot run, and the CPU cuts ", gpu.left_out().Text()));
}

absl::StatusOr<std::unique_ptr<cuda::GpuSet>> OpenPlugin(const std::string& path,
                                                         const GpuSettings& settings,
                                                         const GpuLost& on_lost) {
  const absl::StatusOr<cuda::Plugin> loaded = cuda::Plugin::Load(path);
  if (!loaded.ok()) {
    return absl::Status(loaded.status().code(),
                        ToAbsl(Cat(MessageOf(loaded.status()), " (--gpu-plugin)")));
  }
  const cuda::Plugin& plugin = *loaded;
  KERF_ASSIGN_OR_RETURN(const std::uint32_t count, plugin.CountDevices());
  const GpuSource source{count, [&](std::uint32_t number) { return plugin.Open(number); }};
  KERF_ASSIGN_OR_RETURN(const cuda::GpuCutterOptions options, GpuOptionsOf(settings));
  return OpenGpusOf(source, settings, options, on_lost);
}

}  // namespace

std::string WhatAGpuCuts(std::size_t from_bytes, std::size_t batch_bytes, bool is_measured) {
  const std::string from = FormatByteSize(from_bytes);
  const std::size_t usual_bytes = UsualPieceBytes(batch_bytes);
  if (from_bytes <= usual_bytes) return Cat("cuts pieces of ", from, " and more");
  // Of streams whose chunks are as large as chunks get.
  const std::size_t most_bytes =
      std::max(usual_bytes, std::min<std::size_t>(batch_bytes, 2 * std::size_t{kMaxMaxBytes}));
  std::string what = "cuts nothing";
  if (from_bytes <= most_bytes) {
    what = Cat("cuts nothing but for profiles with chunks of up to ",
               FormatByteSize((from_bytes + 1) / 2), " and more");
  }
  const std::string usual = FormatByteSize(usual_bytes);
  if (is_measured) {
    return Cat("is slower than the CPU at pieces of up to ", usual,
               ", which is what streams send: it ", what);
  }
  return Cat(what, ": streams send pieces of up to ", usual, ", and --gpu-min-piece is ", from,
             "; set it to auto, or to ", usual, " or less");
}

absl::StatusOr<cuda::GpuCutterOptions> GpuOptionsOf(const GpuSettings& settings) {
  cuda::GpuCutterOptions options;
  std::size_t each_bytes = cuda::SlotDeviceBytes(options.slot);
  while (each_bytes > settings.memory_bytes) {
    if (options.slot.batch_bytes <= kMinBatchBytes) {
      return absl::UnavailableError(
          ToAbsl(Cat("the smallest batch takes ", each_bytes, " bytes of a GPU, and it may have ",
                     settings.memory_bytes, ": set --gpu-memory to ", each_bytes, " or more")));
    }
    // What there is a number of pieces for takes memory as well.
    options.slot.batch_bytes /= 2;
    options.slot.piece_count /= 2;
    each_bytes = cuda::SlotDeviceBytes(options.slot);
  }
  options.slot_count = std::min<std::size_t>(settings.memory_bytes / each_bytes, kMaxSlots);
  options.min_piece_bytes = settings.min_piece_bytes;
  return options;
}

absl::StatusOr<std::unique_ptr<cuda::GpuSet>> OpenGpusOf(const GpuSource& source,
                                                         const GpuSettings& settings,
                                                         const cuda::GpuCutterOptions& options,
                                                         const GpuLost& on_lost) {
  if (source.count == 0) return absl::UnavailableError("this machine has no GPU");
  const bool are_named = !settings.devices.empty();
  std::vector<std::uint32_t> numbers = settings.devices;
  for (std::uint32_t number = 0; !are_named && number < source.count; ++number) {
    numbers.push_back(number);
  }
  static_assert(kMostGpus == cuda::GpuSet::kMaxGpus);
  numbers.resize(std::min(numbers.size(), kMostGpus));
  std::vector<cuda::GpuSet::Member> members;
  std::vector<absl::Status> failures;
  for (const std::uint32_t number : numbers) {
    auto gpu = OpenOne(source, number, options, on_lost);
    if (!gpu.ok()) {
      failures.push_back(Annotate(gpu.status(), Cat("GPU ", number)));
      if (are_named && settings.use == GpuUse::kRequire) return failures.back();
      continue;
    }
    LogOpened(source, number, **gpu, !options.min_piece_bytes.has_value());
    members.push_back({number, *std::move(gpu)});
  }
  if (members.empty()) return failures.front();
  for (const absl::Status& failure : failures) {
    Log(LogLevel::kWarning, Cat(MessageOf(failure), "; the others are used"));
  }
  return std::make_unique<cuda::GpuSet>(std::move(members));
}

absl::StatusOr<std::unique_ptr<cuda::GpuSet>> OpenGpus(const GpuSettings& settings,
                                                       const std::string& backend,
                                                       const GpuLost& on_lost) {
  const bool is_required = settings.use == GpuUse::kRequire;
  // Who names a backend of the CPU wants that one.
  if (settings.use == GpuUse::kOff || (!is_required && backend != kAutomaticBackend)) {
    return nullptr;
  }
  const std::string path = PluginPath(settings);
  auto gpus = OpenPlugin(path, settings, on_lost);
  if (gpus.ok()) return gpus;
  if (is_required) return Annotate(gpus.status(), "--gpu require");
  // A kerfd that came without one is complete.
  const bool is_expected = absl::IsNotFound(gpus.status()) && settings.plugin.empty();
  Log(is_expected ? LogLevel::kDebug : LogLevel::kWarning,
      Cat("no GPU, the CPU cuts: ", MessageOf(gpus.status())));
  return nullptr;
}

}  // namespace kerf
