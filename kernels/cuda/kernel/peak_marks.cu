#include "kernels/cuda/kernel/peak_marks.h"
#include "kernels/cuda/launch/launch.cuh"

namespace kerf::cuda {

template cudaError_t Launch<ByteMaxima>(const ByteMaxima::Args&, cudaStream_t, unsigned);
template cudaError_t Launch<PeakMarks>(const PeakMarks::Args&, cudaStream_t, unsigned);

}  // namespace kerf::cuda
