// Gets a device's kernels ready before any clock runs that would take a driver that compiles them
// for a device that hangs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/open_device.h"

namespace kerf::cuda {

struct LoadLimits {
  // Then the device is given up: a driver compiles all kernels in less.
  std::chrono::milliseconds most{120'000};
  // Then whoever waits should be told what for.
  std::chrono::milliseconds unnoticed{2'000};
};

// Device::LoadKernels, in a thread of its own. `on_slow` is called once, where it is not empty,
// when that takes longer than `unnoticed`. An error: the device is lost; DeadlineExceeded: it took
// longer than `most`. Neither closes it, which might have to wait for it: its memory goes with the
// process.
absl::StatusOr<std::unique_ptr<Device>> LoadKernels(std::unique_ptr<Device> device,
                                                    const LoadLimits& limits = {},
                                                    const std::function<void()>& on_slow = {});

// Opens one and loads its kernels, by the limits above.
absl::StatusOr<std::unique_ptr<Device>> OpenLoaded(const OpenDevice& open);

// A device that does not answer would be waited for while it is closed.
void KeepForEver(std::shared_ptr<Device> device);

}  // namespace kerf::cuda
