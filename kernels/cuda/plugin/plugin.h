// Loads libkerf_cuda.so, or takes the one that is linked in, and opens its devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/plugin/abi.h"

namespace kerf::cuda {

// Thread-safe but for the devices.
class Plugin {
 public:
  // The plug-in stays loaded for the rest of the process. NotFound: there is no such file.
  // FailedPrecondition: it is no plug-in of this very build.
  static absl::StatusOr<Plugin> Load(const std::string& path);
  // The same for what is in this process already, `name` in messages. FailedPrecondition as above.
  static absl::StatusOr<Plugin> Of(const PluginApi& api, std::string_view name);

  // Unavailable: there is no driver, or it does not work.
  absl::StatusOr<std::uint32_t> CountDevices() const;

  // Device number `number`, below CountDevices(). Unavailable if it cannot be used.
  absl::StatusOr<std::unique_ptr<Device>> Open(std::uint32_t number) const;

 private:
  explicit Plugin(const PluginApi* api) : api_(api) {}

  const PluginApi* api_;
};

}  // namespace kerf::cuda
