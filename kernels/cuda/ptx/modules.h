// All kernels of the plug-in, as their PTX has them.
#pragma once

#include <span>

#include "kernels/cuda/ptx/kernels.h"

namespace kerf::cuda::ptx {

// One a file.
std::span<const ModuleKernels* const> AllModules();

}  // namespace kerf::cuda::ptx
