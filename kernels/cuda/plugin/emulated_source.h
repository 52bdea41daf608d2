// Emulated devices for tests of what checks devices.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/device/open_device.h"

namespace kerf::cuda {

inline constexpr std::uint64_t kEveryDevice = ~std::uint64_t{0};

// Each device is another one, made of the seed; `fault` befalls the one that is opened as number
// `faulty`, counted from 0, or kEveryDevice. Not thread-safe.
OpenDevice EmulatedSource(std::uint64_t seed, Fault fault = {}, std::uint64_t faulty = 0);

}  // namespace kerf::cuda
