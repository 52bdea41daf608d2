// What a device is asked before it gets any work.
#pragma once

#include <chrono>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/pipeline/batch_slot.h"

namespace kerf::cuda {

// Compares the device with the CPU on a megabyte, or on a batch if that is less, of each algorithm
// and digest, in `slot`. Not OK: the device is of no use, and why.
absl::Status TestDevice(BatchSlot& slot, std::chrono::milliseconds timeout);

// From so many bytes on a piece alone is faster on the device than on a core of the CPU; SIZE_MAX
// if none that fits a batch is.
absl::StatusOr<std::size_t> MeasureCrossover(BatchSlot& slot, std::chrono::milliseconds timeout);

}  // namespace kerf::cuda
