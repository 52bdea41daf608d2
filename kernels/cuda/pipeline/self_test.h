// What a device is asked before it gets any work.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/pipeline/crossovers.h"
#include "kernels/cuda/pipeline/left_out_plans.h"

namespace kerf::cuda {

// Compares the device with the CPU on a megabyte, or on a batch if that is less, of each algorithm
// and digest, in `slot`; `timeout` is each batch's, by LookClock. What it cannot run is left out;
// what it does run has to be right. Not OK: the device is of no use, and why.
absl::StatusOr<LeftOutPlans> TestDevice(BatchSlot& slot, std::chrono::milliseconds timeout);

// From how many bytes on a piece alone is faster on the device than on a core of the CPU: for each
// digest, and for chunks of up to several lengths, by plans that are not left out.
absl::StatusOr<Crossovers> MeasureCrossovers(BatchSlot& slot, const LeftOutPlans& left_out,
                                             std::chrono::milliseconds timeout);

}  // namespace kerf::cuda
