// All kernels, by number.
#pragma once

#include "kernels/cuda/device/kernel_types.h"
#include "kernels/cuda/kernel/gear_marks.h"

namespace kerf::cuda {

// kerfd and its plug-in are built from one tree, and compare this list when they meet.
using KernelList = KernelTypes<GearMarks, FastCdcMarks>;

}  // namespace kerf::cuda
