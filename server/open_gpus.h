// The GPUs that the settings ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "server/worker/worker_settings.h"

namespace kerf {

// What fails later on: the number of the GPU, and why. From a thread of the GPU's, once for each.
using GpuLost = std::function<void(std::uint32_t number, const absl::Status& why)>;

// `backend` is the CPU's. Null where none is wanted, or where there is none and none is required; a
// plug-in that is there and finds no GPU is told of in the log, once, as is each GPU that cannot be
// used beside others. An error only where one is required: there is none, or one that the settings
// name is not to be had.
absl::StatusOr<std::unique_ptr<cuda::GpuSet>> OpenGpus(const GpuSettings& settings,
                                                       const std::string& backend,
                                                       const GpuLost& on_lost);

// What the settings say of each: as many slots of the usual size as there is memory for, or one of
// smaller batches, so that it fits. Unavailable: not even the smallest does.
absl::StatusOr<cuda::GpuCutterOptions> GpuOptionsOf(const GpuSettings& settings);

// What is said of a GPU that takes pieces of so many bytes, set or measured, up to a batch.
std::string WhatAGpuCuts(std::size_t from_bytes, std::size_t batch_bytes, bool is_measured);

// Where GPUs come from: a plug-in, or a test.
struct GpuSource {
  std::uint32_t count = 0;
  std::function<absl::StatusOr<std::unique_ptr<cuda::Device>>(std::uint32_t number)> open;
};

// Those of the source, each with these options but for on_lost. Unavailable: none can be used; also
// if one is required by its number and cannot.
absl::StatusOr<std::unique_ptr<cuda::GpuSet>> OpenGpusOf(const GpuSource& source,
                                                         const GpuSettings& settings,
                                                         const cuda::GpuCutterOptions& options,
                                                         const GpuLost& on_lost);

}  // namespace kerf
