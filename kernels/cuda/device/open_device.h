// How whatever checks or measures a device comes by it.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"

namespace kerf::cuda {

// Opens the device anew each time: memory of a Device lives as long as it does. Unavailable: there
// is none.
using OpenDevice = std::function<absl::StatusOr<std::unique_ptr<Device>>()>;

}  // namespace kerf::cuda
