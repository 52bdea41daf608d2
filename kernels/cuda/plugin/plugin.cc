#include "kernels/cuda/plugin/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/version.h"
#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf::cuda {
namespace {

absl::Status StatusOf(PluginResult result, const PluginError& error) {
  switch (result) {
    case PluginResult::kOk:
      return absl::OkStatus();
    case PluginResult::kNoMemory:
      return absl::ResourceExhaustedError(error.text);
    case PluginResult::kNoTime:
      return absl::UnavailableError(error.text);
    case PluginResult::kRefused:
      return absl::FailedPreconditionError(error.text);
    case PluginResult::kFailed:
      break;
  }
  return absl::InternalError(error.text);
}

// Calls `function` of the plug-in with `arguments` and room for what went wrong.
template <class Function, class... Arguments>
absl::Status Call(Function function, Arguments... arguments) {
  PluginError error = {};
  return StatusOf(function(arguments..., &error), error);
}

class DeviceOfPlugin final : public Device {
 public:
  DeviceOfPlugin(const PluginApi* api, PluginDevice* device, DeviceInfo info)
      : api_(*api), device_(device), info_(std::move(info)) {}
  DeviceOfPlugin(const DeviceOfPlugin&) = delete;
  DeviceOfPlugin& operator=(const DeviceOfPlugin&) = delete;
  ~DeviceOfPlugin() override { api_.close(device_); }

  const DeviceInfo& info() const override { return info_; }

  absl::Status LoadKernels() override { return Call(api_.load_kernels, device_); }

  absl::StatusOr<std::vector<std::uint8_t*>> AllocateArrays(
      std::span<const std::size_t> sizes_bytes) override {
    std::vector<std::uint8_t*> arrays(sizes_bytes.size());
    KERF_RETURN_IF_ERROR(
        Call(api_.allocate_arrays, device_, sizes_bytes.data(), sizes_bytes.size(), arrays.data()));
    return arrays;
  }

  absl::StatusOr<std::span<std::uint8_t>> AllocatePinned(std::size_t size_bytes) override {
    std::uint8_t* bytes = nullptr;
    KERF_RETURN_IF_ERROR(Call(api_.allocate_pinned, device_, size_bytes, &bytes));
    return std::span(bytes, size_bytes);
  }

  absl::StatusOr<QueueId> MakeQueue() override {
    std::uint32_t queue = 0;
    KERF_RETURN_IF_ERROR(Call(api_.make_queue, device_, &queue));
    return QueueId(queue);
  }

  absl::Status CopyIn(QueueId queue, std::uint8_t* to,
                      std::span<const std::uint8_t> pinned) override {
    return Call(api_.copy_in, device_, static_cast<std::uint32_t>(queue), to, pinned.data(),
                pinned.size());
  }

  absl::Status CopyOut(QueueId queue, std::span<std::uint8_t> pinned,
                       const std::uint8_t* from) override {
    return Call(api_.copy_out, device_, static_cast<std::uint32_t>(queue), pinned.data(), from,
                pinned.size());
  }

  absl::Status Launch(QueueId queue, std::size_t kernel,
                      std::span<const std::uint8_t> args) override {
    return Call(api_.launch, device_, static_cast<std::uint32_t>(queue),
                static_cast<std::uint32_t>(kernel), args.data(), args.size());
  }

  absl::StatusOr<MomentId> MakeMoment() override {
    std::uint32_t moment = 0;
    KERF_RETURN_IF_ERROR(Call(api_.make_moment, device_, &moment));
    return MomentId(moment);
  }

  absl::Status Note(QueueId queue, MomentId moment) override {
    return Call(api_.note, device_, static_cast<std::uint32_t>(queue),
                static_cast<std::uint32_t>(moment));
  }

  absl::StatusOr<std::chrono::nanoseconds> Between(MomentId from, MomentId to) override {
    std::uint64_t nanoseconds = 0;
    KERF_RETURN_IF_ERROR(Call(api_.between, device_, static_cast<std::uint32_t>(from),
                              static_cast<std::uint32_t>(to), &nanoseconds));
    return std::chrono::nanoseconds(nanoseconds);
  }

  absl::Status BeginGraph(QueueId queue) override {
    return Call(api_.begin_graph, device_, static_cast<std::uint32_t>(queue));
  }

  absl::StatusOr<GraphId> EndGraph(QueueId queue) override {
    std::uint32_t graph = 0;
    KERF_RETURN_IF_ERROR(Call(api_.end_graph, device_, static_cast<std::uint32_t>(queue), &graph));
    return GraphId(graph);
  }

  absl::Status CancelGraph(QueueId queue) override {
    return Call(api_.cancel_graph, device_, static_cast<std::uint32_t>(queue));
  }

  absl::Status RunGraph(QueueId queue, GraphId graph) override {
    return Call(api_.run_graph, device_, static_cast<std::uint32_t>(queue),
                static_cast<std::uint32_t>(graph));
  }

  absl::Status DropGraph(GraphId graph) override {
    return Call(api_.drop_graph, device_, static_cast<std::uint32_t>(graph));
  }

  absl::StatusOr<bool> IsDone(QueueId queue) override {
    std::uint32_t is_done = 0;
    KERF_RETURN_IF_ERROR(Call(api_.is_done, device_, static_cast<std::uint32_t>(queue), &is_done));
    return is_done != 0;
  }

 private:
  const PluginApi& api_;
  PluginDevice* const device_;
  const DeviceInfo info_;
};

// What shows that the two sides were not built from one tree; empty: nothing does.
std::string DifferenceOf(const PluginApi& api) {
  // Nothing else of another layout can be read.
  if (api.abi_version != kPluginAbiVersion) {
    return Cat("its interface is version ", api.abi_version, ", not ", kPluginAbiVersion);
  }
  const std::string_view version(api.version, api.version_bytes);
  if (version != kVersion) return Cat("it is of kerf ", version);
  if (api.names_hash != KernelList::NamesHash()) return "its kernels are other ones";
  if (!std::equal(KernelList::kArgsBytes.begin(), KernelList::kArgsBytes.end(), api.args_bytes,
                  api.args_bytes + api.kernel_count)) {
    return "its kernels take other arguments";
  }
  return "";
}

}  // namespace

absl::StatusOr<Plugin> Plugin::Load(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (error || !std::filesystem::exists(whole, error)) {
    return absl::NotFoundError(ToAbsl(Cat("there is no CUDA plug-in at ", path)));
  }
  // Not by its name alone: the loader would look for that in the system's folders.
  void* const library = dlopen(whole.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(ToAbsl(Cat(path, " cannot be loaded: ", dlerror())));
  }
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginEntryName));
  if (entry == nullptr) {
    return absl::FailedPreconditionError(ToAbsl(Cat(path, " is no CUDA plug-in of kerf")));
  }
  return Of(*entry(), path);
}

absl::StatusOr<Plugin> Plugin::Of(const PluginApi& api, std::string_view name) {
  if (const std::string difference = DifferenceOf(api); !difference.empty()) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat(name, " belongs to another kerfd (", difference,
                   "); install the one that came with this kerfd, ", kVersion)));
  }
  return Plugin(&api);
}

absl::StatusOr<std::uint32_t> Plugin::CountDevices() const {
  std::uint32_t count = 0;
  const absl::Status status = Call(api_->count_devices, &count);
  if (!status.ok()) return absl::UnavailableError(status.message());
  return count;
}

absl::StatusOr<std::unique_ptr<Device>> Plugin::Open(std::uint32_t number) const {
  PluginDevice* device = nullptr;
  PluginDeviceInfo info = {};
  const absl::Status status = Call(api_->open, number, &device, &info);
  if (!status.ok()) return absl::UnavailableError(status.message());
  KERF_CHECK(device != nullptr);
  return std::make_unique<DeviceOfPlugin>(api_, device, DeviceInfo{info.name, info.memory_bytes});
}

}  // namespace kerf::cuda
