// Every metric that kerfd shows: its name, what it means, and which values its labels have. The
// reference page docs/metrics.md is made from it (kerfd --print-metrics).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kerf::metrics {

enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };

// Which processes show a metric.
enum class Where : std::uint8_t { kEverywhere, kWorkers, kFronts };

struct Label {
  std::string_view name;
  // All that it can be, for people; never the id of anything.
  std::string_view values;
};

// Kept for ever, once released: a name or a label that changes breaks dashboards and alerts.
struct Metric {
  std::string_view name;
  Type type;
  Where where;
  std::string_view help;
  std::span<const Label> labels = {};
};

// As Prometheus calls it.
std::string_view NameOf(Type type);

extern const Metric kBuildInfo;
extern const Metric kReady;
extern const Metric kDraining;
extern const Metric kProcessCpuSeconds;
extern const Metric kProcessStartTime;
extern const Metric kProcessResidentBytes;
extern const Metric kProcessVirtualBytes;
extern const Metric kProcessOpenFds;
extern const Metric kProcessMaxFds;
extern const Metric kProcessThreads;
extern const Metric kLogLinesLost;

extern const Metric kDoorConnections;
extern const Metric kDoorMaxConnections;
extern const Metric kDoorConnectionsAccepted;
extern const Metric kDoorConnectionsEnded;
extern const Metric kDoorCalls;
extern const Metric kDoorCallsRefused;
extern const Metric kDoorCallsCancelled;
extern const Metric kDoorMemoryBytes;
extern const Metric kDoorMemoryLimitBytes;
extern const Metric kTlsCertificateExpires;
extern const Metric kAccessRefused;
extern const Metric kQuotaExceeded;
extern const Metric kAuditWritable;
extern const Metric kAuditLines;
extern const Metric kAuditWaiting;
extern const Metric kAuditFileBytes;

extern const Metric kStreams;
extern const Metric kMaxStreams;
extern const Metric kStreamsStarted;
extern const Metric kStreamsRefused;
extern const Metric kStreamsEnded;
extern const Metric kGoAways;
extern const Metric kIngestBytes;
extern const Metric kSharedBytes;
extern const Metric kChunks;
extern const Metric kChunkBytes;
extern const Metric kChunkSize;
extern const Metric kPendingBytes;
extern const Metric kMemoryBytes;
extern const Metric kMemoryLimitBytes;
extern const Metric kStageSeconds;
extern const Metric kStalls;
extern const Metric kStalledStreams;
extern const Metric kIndexOperations;
extern const Metric kIndexCalls;
extern const Metric kIndexTakesCommits;
extern const Metric kIndexRepositories;
extern const Metric kIndexEntries;
extern const Metric kIndexEpoch;
extern const Metric kIndexDiskBytes;
extern const Metric kIndexDiskFreeBytes;
extern const Metric kIndexDiskMinFreeBytes;
extern const Metric kHints;
extern const Metric kCutBytes;
extern const Metric kLookupBatches;
extern const Metric kDigestsAskedAhead;
extern const Metric kHintCacheBytes;
extern const Metric kHintSegments;
extern const Metric kGpus;
extern const Metric kGpuBatches;
extern const Metric kGpuPieces;
extern const Metric kGpuBytes;
extern const Metric kGpuFallbacks;
extern const Metric kGpuAudits;
extern const Metric kGpuMismatches;
extern const Metric kGpuPendingBytes;
extern const Metric kRedisCommands;
extern const Metric kRedisRetries;
extern const Metric kRedisRedirects;
extern const Metric kRedisConnects;
extern const Metric kRedisCertificateExpires;
extern const Metric kRedisMemoryBytes;
extern const Metric kRedisMaxMemoryBytes;
extern const Metric kRedisFullMasters;

extern const Metric kFrontCalls;
extern const Metric kFrontMaxCalls;
extern const Metric kFrontCallsStarted;
extern const Metric kFrontCallsRefused;
extern const Metric kFrontCallsEnded;
extern const Metric kFrontForwardedBytes;
extern const Metric kFrontWorkers;
extern const Metric kFrontLocates;
extern const Metric kFrontStalls;
extern const Metric kFrontStalledCalls;

// All of them, in the order of the reference page.
std::span<const Metric* const> AllMetrics();

// The reference page, in Markdown.
std::string ReferencePage();

}  // namespace kerf::metrics
