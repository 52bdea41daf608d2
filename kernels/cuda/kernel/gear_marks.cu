#include "kernels/cuda/kernel/gear_marks.h"
#include "kernels/cuda/launch/launch.cuh"

namespace kerf::cuda {

template cudaError_t Launch<GearMarks>(const GearMarks::Args&, cudaStream_t, unsigned);
template cudaError_t Launch<WideGearMarks>(const WideGearMarks::Args&, cudaStream_t, unsigned);

}  // namespace kerf::cuda
