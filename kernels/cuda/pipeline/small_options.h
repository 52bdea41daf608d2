// Of cutters that a test fills with little, and whose device is emulated. For tests.
#pragma once

#include <chrono>

#include "kernels/cuda/pipeline/gpu_cutter.h"

namespace kerf::cuda {

inline GpuCutterOptions SmallOptions() {
  GpuCutterOptions options;
  options.slot_count = 2;
  options.slot = {.batch_bytes = 64 << 10, .piece_count = 8};
  // The emulator is slow, and slower under a sanitizer.
  options.batch_timeout = std::chrono::minutes(2);
  options.idle = [] {};
  options.min_piece_bytes = 0;
  return options;
}

}  // namespace kerf::cuda
