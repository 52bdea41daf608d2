#include "server/metrics/catalog.h"

#include <array>

#include "base/strings.h"

namespace kerf::metrics {
namespace {

constexpr auto kCounter = Type::kCounter;
constexpr auto kGauge = Type::kGauge;
constexpr auto kHistogram = Type::kHistogram;
constexpr auto kEverywhere = Where::kEverywhere;
constexpr auto kWorkers = Where::kWorkers;
constexpr auto kFronts = Where::kFronts;

constexpr std::string_view kReasonValues =
    "OK, CANCELLED (the client has gone), or a reason of docs/spec/protocol.md";

constexpr Label kBuildLabels[] = {{"version", "of kerf"}, {"role", "all, worker, front"}};
constexpr Label kDoorEndLabels[] = {
    {"reason",
     "closed, not_http2, large_header (over 64 KiB), slow_header, silent (no frame in 10 s), idle "
     "(no call in 300 s), not_reading, no_ping, cancels (its address cancels too many calls), "
     "made_room (had no call, and another one came), full (all have calls); with --tls-cert also, "
     "of a handshake that came to nothing: not_tls, old_tls (before 1.3), no_certificate, "
     "expired_certificate, unknown_certificate (of no CA of --tls-client-ca, or not for clients), "
     "refuses_certificate (the client does not trust kerfd's), tls_failed"}};
constexpr Label kDoorRefusalLabels[] = {
    {"reason",
     "large_metadata (over 7 KiB), no_memory, no_server (gRPC has ended), slow_request, "
     "many_connections (of one identity)"}};
constexpr Label kAccessRefusalLabels[] = {
    {"reason",
     "no_proof, token_in_the_clear, bad_token, expired, front_without_caller, forbidden"}};
constexpr Label kQuotaLabels[] = {{"quota", "streams, calls, bytes, entries"}};
constexpr Label kRefusedLabels[] = {{"reason", "a reason of docs/spec/protocol.md"}};
constexpr Label kEndedLabels[] = {{"reason", kReasonValues}};
constexpr Label kVerdictLabels[] = {{"verdict", "new, duplicate, unverified"}};
constexpr Label kBudgetLabels[] = {
    {"budget", "input (messages that wait), work (cutting, and what is not committed yet)"}};
constexpr Label kStageLabels[] = {
    {"stage",
     "queue (until a thread has time), cut (reading messages, copying, cutting, answering), hash, "
     "gpu (from asking for a GPU to its answer), h2d, mark, select, gpu_hash, d2h, lookup, commit, "
     "forget"}};
constexpr Label kPlaceLabels[] = {
    {"place",
     "client_data (in mid-file, or before Open), client_reading (its answers), thread, memory (to "
     "cut in), gpu, lookup, commit, forget, quota (of bytes)"}};
constexpr Label kFrontPlaceLabels[] = {
    {"place",
     "client_data (it has said nothing yet), client_reading (its answers), worker_reading (it "
     "takes "
     "no more), worker_answer (the client had the last word: the worker has not answered, or waits "
     "for more of it). None for memory: a call without any only reads nothing ahead"}};
constexpr Label kOperationLabels[] = {{"operation", "lookup, commit, forget"},
                                      {"result", "ok, failed"}};
constexpr Label kHintLabels[] = {{"result", "accepted, rejected, absent, late"}};
constexpr Label kHowCutLabels[] = {{"how", "scanned, skipped"}};
constexpr Label kHowKnownLabels[] = {{"how", "asked, foreseen"}};
constexpr Label kSegmentLabels[] = {
    {"event", "written, write_failed, fetched, not_found, fetch_failed, refused"}};
constexpr Label kGpuStateLabels[] = {{"state", "used, lost"}};
constexpr Label kFallbackLabels[] = {{"reason", "given_up, lost, busy"}};
constexpr Label kDirectionLabels[] = {{"direction", "to_worker, to_client"}};
constexpr Label kAuditLabels[] = {{"result", "written, left_out, lost"}};
constexpr Label kWorkerStateLabels[] = {{"state", "live, lost"}};

constexpr std::string_view kStagesOfCutting =
    "\n## Where the time of cutting goes\n\n"
    "On a GPU a batch is copied in (`h2d`), marked (`mark`: each byte behind which a chunk might "
    "end), its chunks are selected of the marks (`select`) and hashed (`gpu_hash`), and what was "
    "found is copied back (`d2h`, with the host's look at how much that is). The GPU notes when "
    "each part ends, by its own clock, and is asked for it when the batch is back: nothing waits "
    "for that.\n\n"
    "A part begins where the one before it ends, so the time in which other batches "
    "have the copy engine or the multiprocessors is in it: the sum of a part's seconds may grow by "
    "more than one a second. `gpu` is what an upload sees of all this, for each piece: waiting for "
    "the batch to fill and for the parts, the audit, and pieces that are handed back.\n\n"
    "A GPU that "
    "cannot tell the time, or is lost, has no parts. With XXH3-128 there is no `gpu_hash`, and "
    "`select` is finding the candidates alone: the CPU selects of these and hashes as it goes, in "
    "`cut`.\n\n"
    "Of the CPU there is no `mark` and no `select`: they are one loop there, part of `cut`. It "
    "goes from chunk to chunk, skips what is too near the last cut to hold one, and stops at the "
    "first place where the chunk may end; with `ram`, `ae-max`, `ae-min`, `maxp`, `seqcdc`, `tttd` "
    "and `fixed` nothing is ever marked. To tell the two apart every byte would have to be marked "
    "first, which is slower (kernels/twostage/README.md), or the clock be read twice for each "
    "chunk, of which a core cuts one in about a microsecond. Fingerprints are made behind that, "
    "in `hash`; but in `cut` where hints are followed.\n";

std::string_view WhereText(Where where) {
  switch (where) {
    case Where::kEverywhere:
      return "every kerfd";
    case Where::kWorkers:
      return "`--role` all and worker";
    case Where::kFronts:
      return "`--role` front";
  }
  return "";
}

}  // namespace

const Metric kBuildInfo{"kerf_build_info", kGauge, kEverywhere, "Always 1.", kBuildLabels};
const Metric kReady{"kerf_ready", kGauge, kEverywhere, "1 while /readyz says so, else 0."};
const Metric kDraining{"kerf_draining", kGauge, kEverywhere,
                       "1 from the first signal to stop on, else 0."};
const Metric kProcessCpuSeconds{"process_cpu_seconds_total", kCounter, kEverywhere,
                                "CPU time of all threads, user and system."};
const Metric kProcessStartTime{"process_start_time_seconds", kGauge, kEverywhere,
                               "When the process was started, since 1970."};
const Metric kProcessResidentBytes{"process_resident_memory_bytes", kGauge, kEverywhere,
                                   "Memory that the process has from the system now."};
const Metric kProcessVirtualBytes{"process_virtual_memory_bytes", kGauge, kEverywhere,
                                  "Address space of the process."};
const Metric kProcessOpenFds{"process_open_fds", kGauge, kEverywhere, "Open file descriptors."};
const Metric kProcessMaxFds{"process_max_fds", kGauge, kEverywhere,
                            "File descriptors that it may have open."};
const Metric kProcessThreads{"process_threads", kGauge, kEverywhere, "Threads of the process."};
const Metric kLogLinesLost{"kerf_log_lines_lost_total", kCounter, kEverywhere,
                           "Lines of the log that nobody took in time; the log says where."};

const Metric kDoorConnections{"kerf_door_connections", kGauge, kEverywhere,
                              "Clients that are connected over TCP now."};
const Metric kDoorMaxConnections{
    "kerf_door_max_connections", kGauge, kEverywhere,
    "Clients that may be connected over TCP at once: --max-connections, or what the limit of open "
    "files leaves."};
const Metric kDoorConnectionsAccepted{"kerf_door_connections_accepted_total", kCounter, kEverywhere,
                                      "Clients that have connected over TCP."};
const Metric kDoorConnectionsEnded{"kerf_door_connections_ended_total", kCounter, kEverywhere,
                                   "Connections over TCP that have ended, by why.", kDoorEndLabels};
const Metric kDoorCalls{"kerf_door_calls_total", kCounter, kEverywhere,
                        "Calls that have come over TCP."};
const Metric kDoorCallsRefused{"kerf_door_calls_refused_total", kCounter, kEverywhere,
                               "Calls that were not passed on, or not to their end.",
                               kDoorRefusalLabels};
const Metric kDoorCallsCancelled{"kerf_door_calls_cancelled_total", kCounter, kEverywhere,
                                 "Calls that clients have cancelled before they were answered."};
const Metric kDoorMemoryBytes{"kerf_door_memory_bytes", kGauge, kEverywhere,
                              "What calls over TCP may have on their way now."};
const Metric kDoorMemoryLimitBytes{"kerf_door_memory_limit_bytes", kGauge, kEverywhere,
                                   "What they may have at most, all together."};
const Metric kTlsCertificateExpires{
    "kerf_tls_certificate_expires_seconds", kGauge, kEverywhere,
    "When the time of --tls-cert ends, in seconds since 1970; not there without it."};
const Metric kAccessRefused{
    "kerf_access_refused_total", kCounter, kEverywhere,
    "Calls, and streams that were open, that were refused for who calls; not "
    "there without --access.",
    kAccessRefusalLabels};
const Metric kQuotaExceeded{
    "kerf_quota_exceeded_total", kCounter, kWorkers,
    "How often an identity or a repository wanted more than its quota: streams, calls and commits "
    "that were refused, and messages that had to wait; not there without --access.",
    kQuotaLabels};

const Metric kStreams{"kerf_streams", kGauge, kWorkers, "Uploads that are open now."};
const Metric kMaxStreams{"kerf_max_streams", kGauge, kWorkers,
                         "Uploads that may be open at once (--max-streams)."};
const Metric kStreamsStarted{"kerf_streams_started_total", kCounter, kWorkers,
                             "Uploads that were taken."};
const Metric kStreamsRefused{"kerf_streams_refused_total", kCounter, kWorkers,
                             "Uploads that were not taken.", kRefusedLabels};
const Metric kStreamsEnded{"kerf_streams_ended_total", kCounter, kWorkers,
                           "Uploads that have ended, by how.", kEndedLabels};
const Metric kGoAways{"kerf_goaways_total", kCounter, kWorkers,
                      "Uploads that were told, in band, to go on elsewhere."};
const Metric kIngestBytes{
    "kerf_ingest_bytes_total", kCounter, kWorkers,
    "Bytes of upload messages, frames included, and of files that clients have "
    "cut and named by their chunks, or that lie in memory that clients share."};
const Metric kSharedBytes{"kerf_shared_bytes_total", kCounter, kWorkers,
                          "The part of kerf_ingest_bytes_total that lay in memory that clients of "
                          "this machine share."};
const Metric kChunks{"kerf_chunks_total", kCounter, kWorkers, "Chunks that were answered.",
                     kVerdictLabels};
const Metric kChunkBytes{"kerf_chunk_bytes_total", kCounter, kWorkers,
                         "Bytes of files in chunks that were answered. The share of duplicate is "
                         "what deduplication saves.",
                         kVerdictLabels};
const Metric kChunkSize{"kerf_chunk_size_bytes", kHistogram, kWorkers,
                        "Lengths of the chunks that were answered."};
const Metric kPendingBytes{"kerf_pending_bytes", kGauge, kWorkers,
                           "Bytes of messages that have come and wait to be cut."};
const Metric kMemoryBytes{"kerf_memory_bytes", kGauge, kWorkers,
                          "Memory that uploads hold of their budgets.", kBudgetLabels};
const Metric kMemoryLimitBytes{"kerf_memory_limit_bytes", kGauge, kWorkers,
                               "The most that they may hold.", kBudgetLabels};
const Metric kStageSeconds{
    "kerf_stage_seconds", kHistogram, kWorkers,
    "Time of one turn of an upload in a stage; of gpu, lookup, commit and forget one call, until "
    "it is answered or its time is over; from h2d to d2h one batch of many uploads on a GPU "
    "(below).",
    kStageLabels};
const Metric kStalls{"kerf_stalls_total", kCounter, kWorkers,
                     "Waits of uploads for one thing that lasted for --stall-warn-ms.",
                     kPlaceLabels};
const Metric kStalledStreams{"kerf_stalled_streams", kGauge, kWorkers,
                             "Uploads that are in such a wait now.", kPlaceLabels};
const Metric kIndexOperations{"kerf_index_operations_total", kCounter, kWorkers,
                              "Calls of uploads to the index, many chunks in each.",
                              kOperationLabels};
const Metric kIndexCalls{"kerf_index_calls", kGauge, kWorkers,
                         "Calls of the Index service that are under way."};
const Metric kIndexTakesCommits{
    "kerf_index_takes_commits", kGauge, kWorkers,
    "1 while the index is there and takes new entries, else 0: /readyz says why, or `kerf ping` of "
    "a Redis that has reached its maxmemory, with which workers stay ready. Backups go on and are "
    "whole then, but later ones send again what it was not told."};
const Metric kIndexRepositories{
    "kerf_index_repositories", kGauge, kWorkers,
    "Repositories that have entries. This one and the next two not with --redis, which nobody "
    "counts all the time: `kerf index stats` does."};
const Metric kIndexEntries{"kerf_index_entries", kGauge, kWorkers,
                           "Entries of all repositories, as of the last seconds."};
const Metric kIndexEpoch{"kerf_index_epoch", kGauge, kWorkers,
                         "The highest epoch that a repository was told. Each collection raises its "
                         "repository's by two: one that runs away is no store's."};
const Metric kIndexDiskBytes{"kerf_index_disk_bytes", kGauge, kWorkers,
                             "With --data-dir: what the index takes on its disk."};
const Metric kIndexDiskFreeBytes{"kerf_index_disk_free_bytes", kGauge, kWorkers,
                                 "With --data-dir: what is free on the disk of the index."};
const Metric kIndexDiskMinFreeBytes{
    "kerf_index_disk_min_free_bytes", kGauge, kWorkers,
    "With --data-dir: with less than that free the index takes no commits."};
const Metric kHints{"kerf_hints_total", kCounter, kWorkers,
                    "Ends of chunks that were predicted and proved true or not, and chunks behind "
                    "which nothing was known, or not yet.",
                    kHintLabels};
const Metric kCutBytes{"kerf_cut_bytes_total", kCounter, kWorkers,
                       "Bytes in chunks whose end was scanned for, or was known from hints.",
                       kHowCutLabels};
const Metric kLookupBatches{"kerf_lookup_batches_total", kCounter, kWorkers,
                            "With hints: batches of chunks that the index was asked about, and "
                            "such whose answers were there already.",
                            kHowKnownLabels};
const Metric kDigestsAskedAhead{"kerf_digests_asked_ahead_total", kCounter, kWorkers,
                                "Digests that were looked up before their chunks had come."};
const Metric kHintCacheBytes{"kerf_hint_cache_bytes", kGauge, kWorkers,
                             "Memory of the hints that are held."};
const Metric kHintSegments{"kerf_hint_segments_total", kCounter, kWorkers,
                           "Segments of hints, on their way to the store and from it.",
                           kSegmentLabels};
const Metric kGpus{"kerf_gpus", kGauge, kWorkers, "GPUs that kerfd was started with.",
                   kGpuStateLabels};
const Metric kGpuBatches{"kerf_gpu_batches_total", kCounter, kWorkers,
                         "Batches that came back from GPUs."};
const Metric kGpuPieces{"kerf_gpu_pieces_total", kCounter, kWorkers,
                        "Pieces of files that GPUs took."};
const Metric kGpuBytes{"kerf_gpu_bytes_total", kCounter, kWorkers, "Bytes of these pieces."};
const Metric kGpuFallbacks{
    "kerf_gpu_fallbacks_total", kCounter, kWorkers,
    "Pieces for GPUs that the CPU has cut: given up by the GPU, on one that was lost, or not taken "
    "because all batches were on their way.",
    kFallbackLabels};
const Metric kGpuAudits{"kerf_gpu_audits_total", kCounter, kWorkers,
                        "Batches of GPUs that the CPU has cut as well, to compare."};
const Metric kGpuMismatches{"kerf_gpu_mismatches_total", kCounter, kWorkers,
                            "Such batches in which a GPU was wrong. It is lost from then on."};
const Metric kGpuPendingBytes{"kerf_gpu_pending_bytes", kGauge, kWorkers,
                              "Bytes of files on their way through GPUs."};
const Metric kAuditWritable{"kerf_audit_writable", kGauge, kEverywhere,
                            "With --audit: 1 while the audit log is written, else 0: /readyz says "
                            "why. No commits are taken "
                            "then, unless with --audit-on-failure go-on; a front goes on."};
const Metric kAuditLines{
    "kerf_audit_lines_total", kCounter, kEverywhere,
    "With --audit: lines that were written; calls that changed nothing and were only counted, "
    "because so many came; such of which nothing is known, because the file could not be written.",
    kAuditLabels};
const Metric kAuditWaiting{"kerf_audit_waiting_lines", kGauge, kEverywhere,
                           "With --audit: lines in memory that are to be written."};
const Metric kAuditFileBytes{"kerf_audit_file_bytes", kGauge, kEverywhere,
                             "With --audit: the file that is written now."};
const Metric kRedisCommands{"kerf_redis_commands_total", kCounter, kWorkers,
                            "Commands for the index in Redis."};
const Metric kRedisRetries{"kerf_redis_retries_total", kCounter, kWorkers,
                           "Commands that were sent once more."};
const Metric kRedisRedirects{"kerf_redis_redirects_total", kCounter, kWorkers,
                             "Commands that a node of the cluster sent to another one (MOVED, "
                             "ASK)."};
const Metric kRedisConnects{"kerf_redis_connects_total", kCounter, kWorkers,
                            "Connections to Redis that were begun."};
const Metric kRedisCertificateExpires{
    "kerf_redis_certificate_expires_seconds", kGauge, kWorkers,
    "When the time of the first certificate ends that the masters of Redis show, in seconds since "
    "1970; not there without --redis-tls-ca. Masters are asked anew each hour."};
const Metric kRedisMemoryBytes{"kerf_redis_memory_bytes", kGauge, kWorkers,
                               "Memory that all masters use together."};
const Metric kRedisMaxMemoryBytes{"kerf_redis_max_memory_bytes", kGauge, kWorkers,
                                  "What they may use (maxmemory); 0: one of them has no limit."};
const Metric kRedisFullMasters{
    "kerf_redis_full_masters", kGauge, kWorkers,
    "Masters that have reached their maxmemory and take no new entries."};

const Metric kFrontCalls{"kerf_front_calls", kGauge, kFronts,
                         "Calls that the front passes on now, uploads and others."};
const Metric kFrontMaxCalls{"kerf_front_max_calls", kGauge, kFronts,
                            "Calls that it passes on at once (--max-streams and --max-calls)."};
const Metric kFrontCallsStarted{"kerf_front_calls_started_total", kCounter, kFronts,
                                "Calls that were taken."};
const Metric kFrontCallsRefused{"kerf_front_calls_refused_total", kCounter, kFronts,
                                "Calls that were not taken.", kRefusedLabels};
const Metric kFrontCallsEnded{
    "kerf_front_calls_ended_total", kCounter, kFronts,
    "Calls that have ended: PASSED_ON with the worker's own status, whatever that is, else by the "
    "front, with a reason.",
    kEndedLabels};
const Metric kFrontForwardedBytes{"kerf_front_forwarded_bytes_total", kCounter, kFronts,
                                  "Bytes of messages that were passed on.", kDirectionLabels};
const Metric kFrontWorkers{"kerf_front_workers", kGauge, kFronts, "Workers that the front knows.",
                           kWorkerStateLabels};
const Metric kFrontLocates{"kerf_front_locates_total", kCounter, kFronts,
                           "Clients that asked which worker has their key, to go there directly."};

const Metric kFrontStalls{"kerf_front_stalls_total", kCounter, kFronts,
                          "Waits of calls for one thing that lasted for --stall-warn-ms.",
                          kFrontPlaceLabels};
const Metric kFrontStalledCalls{"kerf_front_stalled_calls", kGauge, kFronts,
                                "Calls that are in such a wait now.", kFrontPlaceLabels};

namespace {

constexpr std::array kAllMetrics = {&kBuildInfo,
                                    &kReady,
                                    &kDraining,
                                    &kProcessCpuSeconds,
                                    &kProcessStartTime,
                                    &kProcessResidentBytes,
                                    &kProcessVirtualBytes,
                                    &kProcessOpenFds,
                                    &kProcessMaxFds,
                                    &kProcessThreads,
                                    &kLogLinesLost,
                                    &kDoorConnections,
                                    &kDoorMaxConnections,
                                    &kDoorConnectionsAccepted,
                                    &kDoorConnectionsEnded,
                                    &kDoorCalls,
                                    &kDoorCallsRefused,
                                    &kDoorCallsCancelled,
                                    &kDoorMemoryBytes,
                                    &kDoorMemoryLimitBytes,
                                    &kTlsCertificateExpires,
                                    &kAccessRefused,
                                    &kQuotaExceeded,
                                    &kAuditWritable,
                                    &kAuditLines,
                                    &kAuditWaiting,
                                    &kAuditFileBytes,
                                    &kStreams,
                                    &kMaxStreams,
                                    &kStreamsStarted,
                                    &kStreamsRefused,
                                    &kStreamsEnded,
                                    &kGoAways,
                                    &kIngestBytes,
                                    &kSharedBytes,
                                    &kChunks,
                                    &kChunkBytes,
                                    &kChunkSize,
                                    &kPendingBytes,
                                    &kMemoryBytes,
                                    &kMemoryLimitBytes,
                                    &kStageSeconds,
                                    &kStalls,
                                    &kStalledStreams,
                                    &kIndexOperations,
                                    &kIndexCalls,
                                    &kIndexTakesCommits,
                                    &kIndexRepositories,
                                    &kIndexEntries,
                                    &kIndexEpoch,
                                    &kIndexDiskBytes,
                                    &kIndexDiskFreeBytes,
                                    &kIndexDiskMinFreeBytes,
                                    &kHints,
                                    &kCutBytes,
                                    &kLookupBatches,
                                    &kDigestsAskedAhead,
                                    &kHintCacheBytes,
                                    &kHintSegments,
                                    &kGpus,
                                    &kGpuBatches,
                                    &kGpuPieces,
                                    &kGpuBytes,
                                    &kGpuFallbacks,
                                    &kGpuAudits,
                                    &kGpuMismatches,
                                    &kGpuPendingBytes,
                                    &kRedisCommands,
                                    &kRedisRetries,
                                    &kRedisRedirects,
                                    &kRedisConnects,
                                    &kRedisCertificateExpires,
                                    &kRedisMemoryBytes,
                                    &kRedisMaxMemoryBytes,
                                    &kRedisFullMasters,
                                    &kFrontCalls,
                                    &kFrontMaxCalls,
                                    &kFrontCallsStarted,
                                    &kFrontCallsRefused,
                                    &kFrontCallsEnded,
                                    &kFrontForwardedBytes,
                                    &kFrontWorkers,
                                    &kFrontLocates,
                                    &kFrontStalls,
                                    &kFrontStalledCalls};

}  // namespace

std::span<const Metric* const> AllMetrics() { return kAllMetrics; }

std::string_view NameOf(Type type) {
  switch (type) {
    case Type::kCounter:
      return "counter";
    case Type::kGauge:
      return "gauge";
    case Type::kHistogram:
      return "histogram";
  }
  return "untyped";
}

std::string ReferencePage() {
  std::string page =
      "# Metrics of kerfd\n\n"
      "This page lists what kerfd measures, for whoever draws it or wants an alert of it. "
      "Made by `kerfd --print-metrics`; a test holds the page to it. "
      "`kerfd --metrics-listen HOST:PORT` answers over HTTP, with --tls-cert over TLS, without "
      "asking who it "
      "is:\n\n"
      "| path | answer |\n| --- | --- |\n"
      "| `/metrics` | the metrics below, as Prometheus reads them (text format 0.0.4) |\n"
      "| `/` | a page for people, which shows what `/metrics` says, with the curves of the last "
      "minutes ([observability.md](observability.md#the-status-page)) |\n"
      "| `/healthz` | 200 while the process lives and new clients are answered at its addresses, "
      "or "
      "may be again, whatever Redis, GPUs or workers do; else 503 |\n"
      "| `/readyz` | 200 while it takes new calls; 503, and why, while it starts or drains, while "
      "its index takes no commits (a full disk, a Redis that cannot be reached), on a front "
      "without a live worker, and with `--gpu require` once a GPU is lost |\n\n"
      "No label is the name or id of a client, stream, repository or machine: each has the few "
      "values that are listed. Counters begin at 0 with the process.\n\n"
      "| metric | type | shown by | meaning | labels |\n| --- | --- | --- | --- | --- |\n";
  for (const Metric* metric : AllMetrics()) {
    std::string labels;
    for (const Label& label : metric->labels) {
      labels += Cat(labels.empty() ? "" : "; ", "`", label.name, "`: ", label.values);
    }
    page += Cat("| `", metric->name, "` | ", NameOf(metric->type), " | ", WhereText(metric->where),
                " | ", metric->help, " | ", labels, " |\n");
  }
  page += kStagesOfCutting;
  return page;
}

}  // namespace kerf::metrics
