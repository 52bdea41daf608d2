#include "server/serve_front.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>

#include "absl/cleanup/cleanup.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/version.h"
#include "server/front/front_server.h"
#include "server/lifecycle.h"
#include "server/logging/logging.h"
#include "server/net/self_check.h"
#include "server/open_audit.h"
#include "server/open_metrics.h"

namespace kerf {
namespace {

// Of the pauses between checks; the last one grows from the first as a worker stays away.
constexpr std::chrono::milliseconds kMaxCheckPause{5000};
// Of one check, however often there is one: a busy worker is not a lost one, and a front that stops
// waits for those that are under way.
constexpr std::chrono::milliseconds kMinCheckTimeout{1000};
constexpr std::chrono::milliseconds kMaxCheckTimeout{5000};

// The calls of a worker that is without its index at so many checks are ended.
constexpr int kChecksUntilUnused = 3;

// A worker that is stuck must not have all places of the front; the only one there is may.
routing::CallCounts CallsPerWorker(const FrontSettings& settings, const ServingSettings& serving) {
  const bool is_alone = settings.workers.size() == 1 && !settings.workers[0].is_group;
  const auto part_of = [&](std::uint32_t places) -> std::size_t {
    return is_alone ? places : places - places / 4;
  };
  const std::size_t max_streams =
      settings.max_worker_streams > 0 ? settings.max_worker_streams : part_of(serving.max_streams);
  return {max_streams, part_of(settings.max_calls)};
}

FrontOptions OptionsOf(const FrontSettings& settings, const ServingSettings& serving) {
  FrontOptions options;
  options.listen = serving.listen;
  options.workers.workers = settings.workers;
  options.workers.check_times = {.interval = settings.worker_check,
                                 .max_interval = std::max(settings.worker_check, kMaxCheckPause)};
  options.workers.check_timeout =
      std::clamp(settings.worker_check, kMinCheckTimeout, kMaxCheckTimeout);
  // Of three checks, if these are often.
  options.workers.unused_grace =
      std::min(options.workers.unused_grace, kChecksUntilUnused * settings.worker_check);
  options.workers.refresh = settings.worker_refresh;
  options.workers.seed = std::random_device()();
  options.max_streams = serving.max_streams;
  options.max_connections = serving.max_connections;
  options.max_calls = settings.max_calls;
  options.workers.max_calls_per_worker = CallsPerWorker(settings, serving);
  options.idle_evict = serving.idle_evict;
  options.memory_bytes = serving.memory_bytes;
  options.write_stall = serving.write_stall;
  options.stall_warn = serving.stall_warn;
  return options;
}

}  // namespace

absl::Status ServeFront(const FrontSettings& settings, const ServingSettings& serving,
                        const LifecycleSettings& lifecycle, const OpenedTls& tls,
                        const access::AccessSource* access, audit::Sink* audit,
                        Supervision& supervision, metrics::Port* port) {
  FrontOptions options = OptionsOf(settings, serving);
  options.access = access;
  options.tls = tls.server.get();
  options.workers.tls = tls.workers.get();
  options.audit = audit;
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<FrontServer> server, FrontServer::Start(options));
  const absl::Cleanup stop = [&] { server->Stop(); };
  for (const std::string& address : server->addresses()) {
    Log(LogLevel::kInfo, Cat("kerfd ", kVersion, " serves ", address, " as a front of ",
                             server->live_worker_count(), " workers"));
  }
  SelfCheck self_check(SelfCheckOptionsOf(serving, server->addresses(), tls.self));
  const ShownSubject shown(port, {.readiness = [&]() -> absl::Status {
                                    if (server->live_worker_count() > 0)
                                      return self_check.readiness();
                                    return absl::UnavailableError("no worker is alive");
                                  },
                                  .add_metrics =
                                      [&](metrics::Page& page) {
                                        server->AddMetrics(page);
                                        AddMetrics(tls, page);
                                        AddMetrics(audit, page);
                                      },
                                  .liveness = [&] { return self_check.liveness(); }});
  KERF_RETURN_IF_ERROR(WriteReadyFile("--ready-file", lifecycle.ready_file, server->addresses()));
  WaitForStop(supervision, [&] { return self_check.liveness(); });
  if (port != nullptr) port->BeginDrain();
  self_check.Stop();
  DrainAndStop(*server, supervision, lifecycle.drain);
  if (!lifecycle.ready_file.empty()) unlink(lifecycle.ready_file.c_str());
  Log(LogLevel::kInfo, "stopped");
  return absl::OkStatus();
}

}  // namespace kerf
