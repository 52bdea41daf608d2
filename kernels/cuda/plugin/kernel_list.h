// All kernels, by number.
#pragma once

#include "kernels/cuda/device/kernel_types.h"
#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/kernel/gear_marks.h"
#include "kernels/cuda/kernel/sha256_batch.h"

namespace kerf::cuda {

// kerfd and its plug-in are built from one tree, and compare this list when they meet.
using KernelList = KernelTypes<GearMarks, FastCdcMarks, LeafSums, LeafOffsets, Blake3Leaves,
                               Blake3Parents, OrderCounts, OrderPlaces, Sha256Chunks>;

}  // namespace kerf::cuda
