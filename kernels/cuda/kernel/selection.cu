// The kernels of the selection, for the device.
#include "kernels/cuda/kernel/selection.h"
#include "kernels/cuda/launch/launch.cuh"

namespace kerf::cuda {

template cudaError_t Launch<ScanTiles<RowMarks>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<ScanTotals<RowMarks>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<ScanTiles<SegmentNodes>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<ScanTotals<SegmentNodes>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<EmitCandidates>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<Edges<CutRule>>(const RuleArgs<CutRule>&, cudaStream_t, unsigned);
template cudaError_t Launch<LongWalks<CutRule, false>>(const RuleArgs<CutRule>&, cudaStream_t,
                                                       unsigned);
template cudaError_t Launch<RankTiles<false>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<ScanTiles<SegmentChunks>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<ScanTotals<SegmentChunks>>(const SelectionArgs&, cudaStream_t,
                                                       unsigned);
template cudaError_t Launch<RankTiles<true>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<EmitChunks<CutRule>>(const RuleArgs<CutRule>&, cudaStream_t, unsigned);
template cudaError_t Launch<LongWalks<CutRule, true>>(const RuleArgs<CutRule>&, cudaStream_t,
                                                      unsigned);

}  // namespace kerf::cuda
