// All kernels, by number.
#pragma once

#include "kernels/cuda/device/kernel_types.h"
#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/kernel/cut_rule.h"
#include "kernels/cuda/kernel/extreme_hash.h"
#include "kernels/cuda/kernel/extreme_marks.h"
#include "kernels/cuda/kernel/extreme_rule.h"
#include "kernels/cuda/kernel/gear_marks.h"
#include "kernels/cuda/kernel/linear_marks.h"
#include "kernels/cuda/kernel/peak_marks.h"
#include "kernels/cuda/kernel/selection.h"
#include "kernels/cuda/kernel/sha256_batch.h"

namespace kerf::cuda {

// kerfd and its plug-in are built from one tree, and compare this list when they meet.
using KernelList =
    KernelTypes<GearMarks, WideGearMarks, CrcMarks, RabinMarks, ByteMaxima, PeakMarks,
                ExtremeMarks<MinCdcHashes>, ExtremeMarks<MaxCdcHashes>, Scan<RowMarks>,
                Scan<PieceNodes>, EmitCandidates, RankTiles<false>, Scan<PieceChunks>,
                RankTiles<true>, ClassifyCandidates<CutRule>, Edges<CutRule>,
                LongWalks<CutRule, false>, EmitChunks<CutRule>, LongWalks<CutRule, true>,
                ClassifyCandidates<WideCutRule>, Edges<WideCutRule>, LongWalks<WideCutRule, false>,
                EmitChunks<WideCutRule>, LongWalks<WideCutRule, true>,
                Edges<ExtremeRule<MinCdcHashes>>, LongWalks<ExtremeRule<MinCdcHashes>, false>,
                EmitChunks<ExtremeRule<MinCdcHashes>>, LongWalks<ExtremeRule<MinCdcHashes>, true>,
                Edges<ExtremeRule<MaxCdcHashes>>, LongWalks<ExtremeRule<MaxCdcHashes>, false>,
                EmitChunks<ExtremeRule<MaxCdcHashes>>, LongWalks<ExtremeRule<MaxCdcHashes>, true>,
                ScanTiles<ChunkLeaves>, ScanTotals<ChunkLeaves>, Blake3Leaves, Blake3Parents,
                OrderCounts, OrderPlaces, Sha256Chunks>;

}  // namespace kerf::cuda
