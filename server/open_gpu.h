// The GPU that the settings ask for.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "server/settings/settings.h"

namespace kerf {

// Null where none is wanted, or where there is none and none is required; a plug-in that is there
// and finds no GPU is told of in the log, once. `on_lost` is called at most once, from a thread of
// the GPU's, when it fails later on. An error only where a GPU is required.
absl::StatusOr<std::unique_ptr<cuda::GpuCutter>> OpenGpu(
    const Settings& settings, std::function<void(const absl::Status& why)> on_lost);

}  // namespace kerf
