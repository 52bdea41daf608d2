// kerfd: reads settings, opens the index or becomes a front, serves until it is told to stop.
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "base/last_resort.h"
#include "base/open_files.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/version.h"
#include "kernels/registry.h"
#include "server/audit/guarded_index.h"
#include "server/edge/server.h"
#include "server/lifecycle.h"
#include "server/listener/grpc_listener.h"
#include "server/lock_watch.h"
#include "server/logging/library_log_lines.h"
#include "server/logging/logging.h"
#include "server/metrics/port.h"
#include "server/net/self_check.h"
#include "server/open_access.h"
#include "server/open_audit.h"
#include "server/open_gpus.h"
#include "server/open_hints.h"
#include "server/open_index.h"
#include "server/open_metrics.h"
#include "server/open_tls.h"
#include "server/reloader.h"
#include "server/serve_front.h"
#include "server/service_manager.h"
#include "server/settings/settings.h"
#include "server/worker/rapid_totals.h"

namespace kerf {
namespace {

// Memory that streams give back is kept up to this, in each of malloc's arenas: else the pages of
// the same few messages go back to the system and are faulted in again for each of them, a tenth of
// kerfd's CPU time.
constexpr int kKeptHeapBytes = 16 << 20;
constexpr int kFailureExitCode = 1;
constexpr int kUsageExitCode = 2;

void LogHints(const RapidTotals& totals, HintCache& cache) {
  const HintCounters counters = cache.counters();
  Log(LogLevel::kInfo,
      Cat("hints: ", totals.hints_accepted.load(), " accepted, ", totals.hints_rejected.load(),
          " rejected, ", totals.hints_absent.load(), " absent, ", totals.hints_late.load(),
          " late; bytes: ", totals.bytes_scanned.load(), " scanned, ", totals.bytes_skipped.load(),
          " not; lookups: ", totals.lookups_asked.load(), " asked, ",
          totals.lookups_foreseen.load(), " foreseen, ", totals.digests_asked_ahead.load(),
          " digests ahead; segments: ", counters.segments_written, " written, ",
          counters.fetches_found, " fetched, ", counters.fetches_refused, " refused"));
}

ServerOptions OptionsOf(Role role, const CuttingSettings& settings,
                        const ServingSettings& serving) {
  const EdgeSettings& edge = settings.edge;
  ServerOptions options;
  options.listen = serving.listen;
  options.limits = edge.session;
  options.timeouts = {.open = edge.open_timeout,
                      .idle = edge.idle_timeout,
                      .write_stall = serving.write_stall,
                      .index = edge.index_timeout,
                      .stall_warn = serving.stall_warn,
                      .idle_evict = serving.idle_evict};
  options.only_created_repositories = edge.only_created_repositories;
  options.index_calls = {.max_calls = edge.max_index_calls, .timeout = edge.index_timeout};
  options.worker_threads = settings.worker.thread_count;
  options.max_streams = serving.max_streams;
  options.max_connections = serving.max_connections;
  options.memory_bytes = serving.memory_bytes;
  options.stream_memory_bytes = edge.stream_memory_bytes;
  options.worker_name = settings.worker.name;
  options.is_behind_fronts = role == Role::kWorker;
  return options;
}

// Opens the index; what it waits for meanwhile is why kerfd is not ready.
absl::StatusOr<OpenedIndex> OpenShownIndex(const CuttingSettings& settings, const OpenedTls& tls,
                                           Supervision& supervision, metrics::Port* port) {
  std::mutex mutex;
  std::string waits_for = "starting";
  const ShownSubject shown(port, {.readiness = [&]() -> absl::Status {
                                    const std::lock_guard lock(mutex);
                                    return absl::UnavailableError(waits_for);
                                  },
                                  .add_metrics = [](metrics::Page& /*page*/) {}});
  return OpenIndex(
      settings, tls.redis, [&] { return supervision.signals.HaveCome(); },
      [&](const absl::Status& why) {
        const std::lock_guard lock(mutex);
        waits_for = Cat("starting, waiting for Redis: ", MessageOf(why));
        supervision.manager.TellWait(waits_for);
      });
}

// The index as it is asked: nothing is changed in it of which `audit` could not tell. Null: all is.
Index* Guard(Index* index, audit::Sink* audit, std::optional<audit::GuardedIndex>& guarded) {
  return audit == nullptr ? index : &guarded.emplace(index, audit);
}

// Not OK: why somebody who could go elsewhere should.
absl::Status ReadinessOf(const Index& index, const GpuSettings& settings,
                         const cuda::GpuSet* gpus) {
  if (const IndexHealth health = index.health(); !health.status.ok()) return health.status;
  // Without it the CPU takes over; whoever requires one wants to hear of that.
  const bool is_lost = gpus != nullptr && gpus->lost_count() > 0;
  if (!is_lost || settings.use != GpuUse::kRequire) return absl::OkStatus();
  return absl::UnavailableError("a GPU is lost (--gpu require)");
}

absl::Status ServeUploads(Role role, const CuttingSettings& settings,
                          const ServingSettings& serving, const LifecycleSettings& lifecycle,
                          const OpenedTls& tls, const access::AccessSource* access,
                          audit::Sink* audit, Supervision& supervision, metrics::Port* port) {
  ServerOptions options = OptionsOf(role, settings, serving);
  options.tls = tls.server.get();
  options.access = access;
  options.audit = audit;
  KERF_RETURN_IF_ERROR(Server::CheckOptions(options));

  KERF_RETURN_IF_ERROR(Annotate(SetDefaultBackend(settings.worker.backend), "--backend"));
  KERF_ASSIGN_OR_RETURN(const OpenedIndex opened, OpenShownIndex(settings, tls, supervision, port));
  std::optional<audit::GuardedIndex> guarded;
  Index* const index = Guard(opened.index.get(), audit, guarded);
  KERF_ASSIGN_OR_RETURN(const OpenedHints hints, OpenHints(settings, tls.redis));
  options.hints = hints.cache;
  std::atomic<bool> ends_without_gpu{false};
  std::atomic<bool> is_draining{false};
  const auto on_lost = [&](std::uint32_t number, const absl::Status& why) {
    Log(LogLevel::kError,
        Cat("GPU ", number, ": ", MessageOf(why), "; what it had and would get is cut without it"));
    // Another signal would cut short a drain that has begun, or is about to.
    if (!settings.gpu.ends_without || is_draining.load() || ends_without_gpu.exchange(true)) return;
    kill(getpid(), SIGTERM);
  };
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::GpuSet> gpus,
                        OpenGpus(settings.gpu, settings.worker.backend, on_lost));
  options.gpus = gpus.get();
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Start(options, index));
  // On every way out: what Redis still answers would wake streams of a server that is gone.
  const absl::Cleanup stop = [&] {
    server->Stop();
    if (opened.redis != nullptr) opened.redis->Close();
    if (gpus != nullptr) gpus->Close();
  };
  for (const std::string& address : server->addresses()) {
    Log(LogLevel::kInfo,
        Cat("kerfd ", kVersion, " serves ", address, " (index: ", index->backend_name(), ")"));
  }
  SelfCheck self_check(SelfCheckOptionsOf(serving, server->addresses(), tls.self));
  const ShownSubject shown(port, {.readiness =
                                      [&] {
                                        absl::Status readiness =
                                            ReadinessOf(*index, settings.gpu, gpus.get());
                                        readiness.Update(self_check.readiness());
                                        return readiness;
                                      },
                                  .add_metrics =
                                      [&](metrics::Page& page) {
                                        server->AddMetrics(page);
                                        AddMetrics(opened, page);
                                        AddMetrics(audit, page);
                                        AddMetrics(tls, page);
                                      },
                                  .liveness = [&] { return self_check.liveness(); }});
  KERF_RETURN_IF_ERROR(WriteReadyFile("--ready-file", lifecycle.ready_file, server->addresses()));

  WaitForStop(supervision, [&] { return self_check.liveness(); });
  is_draining.store(true);
  if (port != nullptr) port->BeginDrain();
  self_check.Stop();
  DrainAndStop(*server, supervision, lifecycle.drain);
  if (hints.cache != nullptr) LogHints(server->rapid_totals(), *hints.cache);
  if (!lifecycle.ready_file.empty()) unlink(lifecycle.ready_file.c_str());
  Log(LogLevel::kInfo, "stopped");
  if (ends_without_gpu.load()) {
    return absl::UnavailableError("stopped because a GPU is lost (--gpu-lost drain)");
  }
  return absl::OkStatus();
}

// All that is followed while it serves; `tls` and `access`, which may be null, outlive them.
std::vector<ReloadedFiles> FollowedFiles(const OpenedTls& tls, access::AccessSource* access) {
  std::vector<ReloadedFiles> files = FilesOf(tls);
  if (access != nullptr) files.push_back({"--access", [access] { return access->Reload(); }});
  return files;
}

// Null: no lock says how long it serves.
absl::StatusOr<std::unique_ptr<LockWatch>> WatchLock(const std::string& path) {
  if (path.empty()) return nullptr;
  return LockWatch::Start(path, [] {
    Log(LogLevel::kInfo, "nobody holds the lock of --while-locked any more");
    kill(getpid(), SIGTERM);
  });
}

absl::Status Serve(const Settings& settings) {
  // Before there are other threads that take signals.
  Supervision supervision{.manager = ServiceManager(ReadServiceManagerOptions(environ))};
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<LockWatch> lock_watch,
                        WatchLock(settings.lifecycle.while_locked));
  KERF_ASSIGN_OR_RETURN(OpenedTls tls, OpenTls(settings.tls, settings.metrics.client_ca));
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<metrics::Port> port,
                        OpenMetrics(settings.metrics, NameOf(settings.role), tls.metrics.get()));
  const ServingSettings& serving = settings.serving;
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<access::AccessSource> access,
                        OpenAccess(settings.access, settings.tls, serving.listen));
  const bool is_front = settings.role == Role::kFront;
  if (is_front) {
    KERF_ASSIGN_OR_RETURN(tls.workers, OpenWorkerTls(settings.front, settings.tls));
  } else {
    KERF_ASSIGN_OR_RETURN(tls.redis, OpenRedisTls(settings.cutting.redis, settings.tls));
  }
  Reloader reloader(FollowedFiles(tls, access.get()), supervision.manager);
  supervision.signals.OnHangup([&reloader] { reloader.Ask(); });
  if (is_front) {
    AuditSettings audit_settings = settings.audit;
    // It changes nothing, and is of no more use to anybody where it refuses all.
    audit_settings.refuses = false;
    KERF_ASSIGN_OR_RETURN(const std::unique_ptr<audit::Sink> audit,
                          OpenAudit(audit_settings, "front", 0));
    return ServeFront(settings.front, serving, settings.lifecycle, tls, access.get(), audit.get(),
                      supervision, port.get());
  }
  const std::size_t max_calls = serving.max_streams + settings.cutting.edge.max_index_calls;
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<audit::Sink> audit,
                        OpenAudit(settings.audit, settings.cutting.worker.name, max_calls));
  return ServeUploads(settings.role, settings.cutting, serving, settings.lifecycle, tls,
                      access.get(), audit.get(), supervision, port.get());
}

// A connection each for all streams that there are places for, and room for an index.
void RaiseFileLimit(const ServingSettings& settings) {
  constexpr std::uint64_t kOtherFiles = 4096;
  const std::uint64_t limit = RaiseOpenFileLimit(FilesFor(settings.max_connections) + kOtherFiles);
  const std::size_t fitting = ConnectionsThatFit(limit);
  if (fitting >= settings.max_streams) return;
  Log(LogLevel::kWarning,
      Cat("the system lets kerfd have ", limit, " files open, which are enough for ", fitting,
          " connections, fewer than --max-streams ", settings.max_streams,
          ": raise the limit (ulimit -n, LimitNOFILE), or clients wait in vain"));
}

int Main(int argc, char** argv) {
  mallopt(M_TRIM_THRESHOLD, kKeptHeapBytes);
  mallopt(M_MMAP_THRESHOLD, kKeptHeapBytes);
  const SettingsResult result = ReadSettings(argc, argv, environ);
  if (result.exit_code.has_value()) {
    std::fputs(result.output.c_str(), *result.exit_code == 0 ? stdout : stderr);
    return *result.exit_code;
  }
  SetLogLevel(result.settings.log.level);
  SetLogFormat(result.settings.log.format);
  // No upload waits for whoever takes the log.
  const LogBehind log_behind;
  const LibraryLogLines library_log_lines;
  const Settings& settings = result.settings;
  RaiseFileLimit(settings.serving);
  const bool is_front = settings.role == Role::kFront;
  for (const std::string& flag : settings.ignored) {
    Log(LogLevel::kWarning,
        Cat(flag, is_front ? " means nothing for a front: give it to its workers"
                           : " is for fronts alone: it means nothing here"));
  }
  if (absl::Status status = Serve(result.settings); !status.ok()) {
    Log(LogLevel::kError, MessageOf(status));
    return status.code() == absl::StatusCode::kInvalidArgument ? kUsageExitCode : kFailureExitCode;
  }
  return 0;
}

}  // namespace
}  // namespace kerf

int main(int argc, char** argv) {
  return kerf::CatchAll("kerfd", [&] { return kerf::Main(argc, argv); });
}
