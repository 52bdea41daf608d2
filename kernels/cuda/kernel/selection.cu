// The kernels of the selection, for the device.
#include "kernels/cuda/kernel/cut_rule.h"
#include "kernels/cuda/kernel/extreme_marks.h"
#include "kernels/cuda/kernel/extreme_rule.h"
#include "kernels/cuda/kernel/selection.h"
#include "kernels/cuda/launch/launch.cuh"

namespace kerf::cuda {

using MinCdcRule = ExtremeRule<MinCdcHashes>;
using MaxCdcRule = ExtremeRule<MaxCdcHashes>;

template cudaError_t Launch<Scan<RowMarks>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<Scan<PieceNodes>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<EmitCandidates>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<ClassifyCandidates<CutRule>>(const RuleArgs<CutRule>&, cudaStream_t,
                                                         unsigned);
template cudaError_t Launch<Edges<CutRule>>(const RuleArgs<CutRule>&, cudaStream_t, unsigned);
template cudaError_t Launch<LongWalks<CutRule, false>>(const RuleArgs<CutRule>&, cudaStream_t,
                                                       unsigned);
template cudaError_t Launch<RankTiles<false>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<Scan<PieceChunks>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<RankTiles<true>>(const SelectionArgs&, cudaStream_t, unsigned);
template cudaError_t Launch<EmitChunks<CutRule>>(const RuleArgs<CutRule>&, cudaStream_t, unsigned);
template cudaError_t Launch<LongWalks<CutRule, true>>(const RuleArgs<CutRule>&, cudaStream_t,
                                                      unsigned);

template cudaError_t Launch<ClassifyCandidates<WideCutRule>>(const RuleArgs<WideCutRule>&,
                                                             cudaStream_t, unsigned);
template cudaError_t Launch<Edges<WideCutRule>>(const RuleArgs<WideCutRule>&, cudaStream_t,
                                                unsigned);
template cudaError_t Launch<LongWalks<WideCutRule, false>>(const RuleArgs<WideCutRule>&,
                                                           cudaStream_t, unsigned);
template cudaError_t Launch<EmitChunks<WideCutRule>>(const RuleArgs<WideCutRule>&, cudaStream_t,
                                                     unsigned);
template cudaError_t Launch<LongWalks<WideCutRule, true>>(const RuleArgs<WideCutRule>&,
                                                          cudaStream_t, unsigned);

template cudaError_t Launch<ExtremeMarks<MinCdcHashes>>(const ExtremeMarksArgs<MinCdcHashes>&,
                                                        cudaStream_t, unsigned);
template cudaError_t Launch<Edges<MinCdcRule>>(const RuleArgs<MinCdcRule>&, cudaStream_t, unsigned);
template cudaError_t Launch<LongWalks<MinCdcRule, false>>(const RuleArgs<MinCdcRule>&, cudaStream_t,
                                                          unsigned);
template cudaError_t Launch<EmitChunks<MinCdcRule>>(const RuleArgs<MinCdcRule>&, cudaStream_t,
                                                    unsigned);
template cudaError_t Launch<LongWalks<MinCdcRule, true>>(const RuleArgs<MinCdcRule>&, cudaStream_t,
                                                         unsigned);

template cudaError_t Launch<ExtremeMarks<MaxCdcHashes>>(const ExtremeMarksArgs<MaxCdcHashes>&,
                                                        cudaStream_t, unsigned);
template cudaError_t Launch<Edges<MaxCdcRule>>(const RuleArgs<MaxCdcRule>&, cudaStream_t, unsigned);
template cudaError_t Launch<LongWalks<MaxCdcRule, false>>(const RuleArgs<MaxCdcRule>&, cudaStream_t,
                                                          unsigned);
template cudaError_t Launch<EmitChunks<MaxCdcRule>>(const RuleArgs<MaxCdcRule>&, cudaStream_t,
                                                    unsigned);
template cudaError_t Launch<LongWalks<MaxCdcRule, true>>(const RuleArgs<MaxCdcRule>&, cudaStream_t,
                                                         unsigned);

}  // namespace kerf::cuda
