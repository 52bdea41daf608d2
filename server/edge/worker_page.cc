#include "server/edge/worker_page.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kerf {
namespace {

constexpr std::array<std::string_view, 3> kVerdictNames = {"new", "duplicate", "unverified"};
constexpr double kNsPerSecond = 1e9;

}  // namespace

void AddStreams(metrics::Page& page, const StreamMetrics& streams) {
  page.Add(metrics::kGoAways, streams.goaways.value());
  page.Add(metrics::kIngestBytes, streams.ingest_bytes.value());
  page.Add(metrics::kSharedBytes, streams.shared_bytes.value());
  for (std::size_t index = 0; index < kVerdictNames.size(); ++index) {
    page.Add(metrics::kChunks, streams.verdicts[index].chunks.value(), {kVerdictNames[index]});
  }
  for (std::size_t index = 0; index < kVerdictNames.size(); ++index) {
    page.Add(metrics::kChunkBytes, streams.verdicts[index].bytes.value(), {kVerdictNames[index]});
  }
  page.AddHistogram(metrics::kChunkSize, streams.chunk_size, 1);
  for (std::size_t index = 0; index < kStageNames.size(); ++index) {
    page.AddHistogram(metrics::kStageSeconds, streams.stage_ns[index], kNsPerSecond,
                      {kStageNames[index]});
  }
  for (const Stage stage : {Stage::kLookup, Stage::kCommit, Stage::kForget}) {
    const auto index = static_cast<std::size_t>(stage);
    const metrics::HistogramCounts counts = streams.stage_ns[index].counts();
    std::uint64_t all_count = 0;
    for (const std::uint64_t count : counts.buckets) all_count += count;
    // A call that failed is in the histogram first.
    const std::uint64_t failed_count = std::min(streams.failures[index].value(), all_count);
    page.Add(metrics::kIndexOperations, all_count - failed_count, {kStageNames[index], "ok"});
    page.Add(metrics::kIndexOperations, failed_count, {kStageNames[index], "failed"});
  }
}

void AddStalls(metrics::Page& page, const metrics::StallCounters& stalls) {
  for (const WaitPlace place : kWorkerWaitPlaces) {
    page.Add(metrics::kStalls, stalls.begun_count(place), {NameOf(place)});
  }
  for (const WaitPlace place : kWorkerWaitPlaces) {
    page.Add(metrics::kStalledStreams, stalls.stalled_count(place), {NameOf(place)});
  }
}

void AddBudgets(metrics::Page& page, const MemoryBudget& input, const MemoryBudget& work) {
  page.Add(metrics::kPendingBytes, input.used_bytes());
  page.Add(metrics::kMemoryBytes, input.used_bytes(), {"input"});
  page.Add(metrics::kMemoryBytes, work.used_bytes(), {"work"});
  page.Add(metrics::kMemoryLimitBytes, input.limit_bytes(), {"input"});
  page.Add(metrics::kMemoryLimitBytes, work.limit_bytes(), {"work"});
}

void AddIndex(metrics::Page& page, const Index& index) {
  const IndexHealth health = index.health();
  page.Add(metrics::kIndexTakesCommits, health.status.ok() && !health.is_full ? 1 : 0);
  const IndexSize size = index.size();
  if (size.totals.has_value()) {
    page.Add(metrics::kIndexRepositories, size.totals->repository_count);
    page.Add(metrics::kIndexEntries, size.totals->entry_count);
    page.Add(metrics::kIndexEpoch, size.totals->epoch);
  }
  const auto add = [&page](const metrics::Metric& metric,
                           const std::optional<std::uint64_t>& value) {
    if (value.has_value()) page.Add(metric, *value);
  };
  add(metrics::kIndexDiskBytes, size.disk_bytes);
  add(metrics::kIndexDiskFreeBytes, size.free_disk_bytes);
  add(metrics::kIndexDiskMinFreeBytes, size.min_free_disk_bytes);
}

void AddRapid(metrics::Page& page, const RapidTotals& totals) {
  page.Add(metrics::kHints, totals.hints_accepted.load(), {"accepted"});
  page.Add(metrics::kHints, totals.hints_rejected.load(), {"rejected"});
  page.Add(metrics::kHints, totals.hints_absent.load(), {"absent"});
  page.Add(metrics::kHints, totals.hints_late.load(), {"late"});
  page.Add(metrics::kCutBytes, totals.bytes_scanned.load(), {"scanned"});
  page.Add(metrics::kCutBytes, totals.bytes_skipped.load(), {"skipped"});
  page.Add(metrics::kLookupBatches, totals.lookups_asked.load(), {"asked"});
  page.Add(metrics::kLookupBatches, totals.lookups_foreseen.load(), {"foreseen"});
  page.Add(metrics::kDigestsAskedAhead, totals.digests_asked_ahead.load());
}

void AddHintCache(metrics::Page& page, const HintCounters& counters) {
  page.Add(metrics::kHintCacheBytes, counters.held_bytes);
  page.Add(metrics::kHintSegments, counters.segments_written, {"written"});
  page.Add(metrics::kHintSegments, counters.segments_failed, {"write_failed"});
  page.Add(metrics::kHintSegments, counters.fetches_found, {"fetched"});
  page.Add(metrics::kHintSegments, counters.fetches_not_found, {"not_found"});
  page.Add(metrics::kHintSegments, counters.fetches_failed, {"fetch_failed"});
  page.Add(metrics::kHintSegments, counters.fetches_refused, {"refused"});
}

void AddGpus(metrics::Page& page, const cuda::GpuSet& gpus) {
  cuda::GpuCounters sum;
  std::uint64_t pending_bytes = 0;
  std::uint64_t used_count = 0;
  std::uint64_t lost_count = 0;
  for (const cuda::GpuState& state : gpus.states()) {
    ++(state.health.ok() ? used_count : lost_count);
    pending_bytes += state.pending_bytes;
    const cuda::GpuCounters& counters = state.counters;
    sum.batch_count += counters.batch_count;
    sum.piece_count += counters.piece_count;
    sum.byte_count += counters.byte_count;
    sum.given_up_piece_count += counters.given_up_piece_count;
    sum.lost_piece_count += counters.lost_piece_count;
    sum.refused_piece_count += counters.refused_piece_count;
    sum.audited_batch_count += counters.audited_batch_count;
    sum.mismatch_count += counters.mismatch_count;
  }
  page.Add(metrics::kGpus, used_count, {"used"});
  page.Add(metrics::kGpus, lost_count, {"lost"});
  page.Add(metrics::kGpuBatches, sum.batch_count);
  page.Add(metrics::kGpuPieces, sum.piece_count);
  page.Add(metrics::kGpuBytes, sum.byte_count);
  page.Add(metrics::kGpuFallbacks, sum.given_up_piece_count, {"given_up"});
  page.Add(metrics::kGpuFallbacks, sum.lost_piece_count, {"lost"});
  page.Add(metrics::kGpuFallbacks, sum.refused_piece_count, {"busy"});
  page.Add(metrics::kGpuAudits, sum.audited_batch_count);
  page.Add(metrics::kGpuMismatches, sum.mismatch_count);
  page.Add(metrics::kGpuPendingBytes, pending_bytes);
}

}  // namespace kerf
