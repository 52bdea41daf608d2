// The part of the metrics that tells of uploads: what the objects of a server have counted, under
// the names of the catalogue.
#pragma once

#include "base/memory_budget.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "server/hints/hint_cache.h"
#include "server/index/index.h"
#include "server/metrics/page.h"
#include "server/metrics/stall_counters.h"
#include "server/worker/rapid_totals.h"
#include "server/worker/stream_metrics.h"

namespace kerf {

void AddStreams(metrics::Page& page, const StreamMetrics& streams);
void AddStalls(metrics::Page& page, const metrics::StallCounters& stalls);
void AddBudgets(metrics::Page& page, const MemoryBudget& input, const MemoryBudget& work);
void AddIndex(metrics::Page& page, const Index& index);
void AddRapid(metrics::Page& page, const RapidTotals& totals);
void AddHintCache(metrics::Page& page, const HintCounters& counters);
// Of all together.
void AddGpus(metrics::Page& page, const cuda::GpuSet& gpus);

}  // namespace kerf
