// The golden vectors of the repository, cut by a device.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/device/open_device.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"

namespace kerf::cuda {

// How many of the cases of `vectors`, a text of kernels/vectors, there are kernels for; the device
// gives what they say, but for what it left to the CPU. An input must fit a batch. DataLoss: what
// differs; else the device is lost or cannot be had.
absl::StatusOr<std::size_t> CheckDeviceVectors(const OpenDevice& open,
                                               const GpuCutterOptions& options,
                                               const std::string& vectors);

}  // namespace kerf::cuda
