#include "kernels/cuda/plugin/emulated_kernels.h"

#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf::cuda {

std::vector<EmulatedKernel> EmulatedKernelList() { return EmulatedKernelsOf(KernelList()); }

}  // namespace kerf::cuda
