// The kernels of kernel_list.h for emulated devices.
#pragma once

#include <vector>

#include "kernels/cuda/device/emulated_device.h"

namespace kerf::cuda {

// EmulatedKernelsOf(KernelList()), compiled once and optimized, where every test that asks for it
// would take as long again, and run it without.
std::vector<EmulatedKernel> EmulatedKernelList();

}  // namespace kerf::cuda
