// What the streams of a process have done, for whoever watches it. A stream adds to it a few times
// a turn, for all that it did since.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "server/index/index.h"
#include "server/metrics/counters.h"

namespace kerf {

// Where the time of a stream goes; from kCopyIn to kCopyOut that of a GPU's batch, which is of many
// streams.
enum class Stage : std::uint8_t {
  kQueue,
  kCut,
  kHash,
  kGpu,
  kCopyIn,
  kMark,
  kSelect,
  kGpuHash,
  kCopyOut,
  kLookup,
  kCommit,
  kForget
};
inline constexpr std::array<std::string_view, 12> kStageNames = {
    "queue",  "cut",      "hash", "gpu",    "h2d",    "mark",
    "select", "gpu_hash", "d2h",  "lookup", "commit", "forget"};

inline constexpr std::array<std::uint64_t, 13> kChunkSizeBounds = {
    1u << 10,   2u << 10,   4u << 10,   8u << 10, 16u << 10, 32u << 10, 64u << 10,
    128u << 10, 256u << 10, 512u << 10, 1u << 20, 2u << 20,  4u << 20};
// From 10 microseconds to 30 seconds.
inline constexpr std::array<std::uint64_t, 14> kStageBoundsNs = {
    10'000,        30'000,        100'000,        300'000,       1'000'000,
    3'000'000,     10'000'000,    30'000'000,     100'000'000,   300'000'000,
    1'000'000'000, 3'000'000'000, 10'000'000'000, 30'000'000'000};

// Answered chunks of one verdict.
struct ChunkCounters {
  metrics::Counter chunks;
  metrics::Counter bytes;
};

// Thread-safe.
struct StreamMetrics {
  metrics::Counter ingest_bytes;
  // Of these, in memory that clients share.
  metrics::Counter shared_bytes;
  // By verdict, kNew first.
  std::array<ChunkCounters, 3> verdicts;
  metrics::Histogram chunk_size{kChunkSizeBounds};
  // Told to go on elsewhere.
  metrics::Counter goaways;

  using Stages = std::array<metrics::Histogram, kStageNames.size()>;
  Stages stage_ns = MakeStages();
  // Calls to the index that failed; by stage, as those that did not are.
  std::array<metrics::Counter, kStageNames.size()> failures;

  ChunkCounters& of(Verdict verdict) { return verdicts[static_cast<std::size_t>(verdict) - 1]; }
  void Observe(Stage stage, std::chrono::nanoseconds time) {
    stage_ns[static_cast<std::size_t>(stage)].Observe(static_cast<std::uint64_t>(time.count()));
  }

 private:
  static Stages MakeStages() {
    using metrics::Histogram;
    return []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      return Stages{(static_cast<void>(kIndex), Histogram(kStageBoundsNs))...};
    }(std::make_index_sequence<kStageNames.size()>());
  }
};

// The answered chunks of one batch, on their way into StreamMetrics. Not thread-safe.
class ChunkTally {
 public:
  void Add(Verdict verdict, std::size_t length_bytes) {
    const std::size_t index = static_cast<std::size_t>(verdict) - 1;
    ++counts_[index];
    bytes_[index] += length_bytes;
    ++sizes_.buckets[BucketOf(length_bytes)];
  }
  void FlushTo(StreamMetrics& metrics) {
    for (std::size_t index = 0; index < counts_.size(); ++index) {
      if (counts_[index] == 0) continue;
      metrics.verdicts[index].chunks.Add(counts_[index]);
      metrics.verdicts[index].bytes.Add(bytes_[index]);
      sizes_.sum += bytes_[index];
    }
    metrics.chunk_size.Add(sizes_);
  }

 private:
  // The bounds are powers of two: nothing is looked for.
  static std::size_t BucketOf(std::size_t length_bytes) {
    const auto floor = static_cast<std::size_t>(std::bit_width(kChunkSizeBounds.front()) - 1);
    const auto width = static_cast<std::size_t>(std::bit_width(length_bytes - 1));
    return std::min(width - std::min(width, floor), kChunkSizeBounds.size());
  }

  std::array<std::uint64_t, 3> counts_{};
  std::array<std::uint64_t, 3> bytes_{};
  metrics::HistogramCounts sizes_;
};

// The stage that a strand is in, and how long it was in each since the last Flush. Not thread-safe;
// reads the clock once for each change.
class StageClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Null: nothing is measured.
  explicit StageClock(StreamMetrics* metrics) : metrics_(metrics) {}

  // A thread is wanted.
  void Schedule() {
    if (metrics_ != nullptr) scheduled_at_ = Clock::now();
  }
  // It is there.
  void Begin() {
    if (metrics_ == nullptr) return;
    since_ = Clock::now();
    stage_ = Stage::kCut;
    metrics_->Observe(Stage::kQueue, since_ - scheduled_at_);
  }
  // Returns when that was.
  Clock::time_point Enter(Stage stage) {
    if (metrics_ == nullptr) return {};
    const Clock::time_point now = Clock::now();
    spent_[static_cast<std::size_t>(stage_)] += now - since_;
    since_ = now;
    stage_ = stage;
    return now;
  }
  // Ends the stage, and adds up what was spent in those that the strand itself works in.
  void Flush() {
    if (metrics_ == nullptr) return;
    Enter(stage_);
    for (const Stage stage : {Stage::kCut, Stage::kHash}) {
      Clock::duration& spent = spent_[static_cast<std::size_t>(stage)];
      if (spent.count() > 0) metrics_->Observe(stage, spent);
      spent = Clock::duration(0);
    }
  }

 private:
  StreamMetrics* const metrics_;
  Stage stage_ = Stage::kCut;
  Clock::time_point scheduled_at_;
  Clock::time_point since_;
  std::array<Clock::duration, kStageNames.size()> spent_{};
};

}  // namespace kerf
