#include "server/settings/settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/cli/option_set.h"
#include "base/strings.h"
#include "base/version.h"
#include "server/metrics/catalog.h"

namespace kerf {
namespace {

constexpr int kUsageExitCode = 2;

constexpr const char* kExamples = R"(
Settings come from flags, from KERFD_ environment variables (KERFD_DATA_DIR for --data-dir; a list with commas) and
from a TOML file (--config), the first before the second before the third.

Examples:
  kerfd --data-dir /var/lib/kerf                       serve 127.0.0.1:7461
  kerfd --data-dir /var/lib/kerf --listen unix:/run/kerf.sock --listen 127.0.0.1:7461
  kerfd --data-dir /var/lib/kerf --listen 0.0.0.0:7461 --tls-cert kerfd.pem --tls-key kerfd.key
  kerfd --redis redis-1:6379 --redis redis-2:6379 --redis-password-file /etc/kerf/redis.password
  kerfd --role worker --redis redis-1:6379 --listen unix:/run/kerf.sock      one of many behind fronts
  kerfd --role front --workers dns:kerf-worker:7461
  kerfd --role front --workers host-1:7461 --workers host-2:7461
  kerfd --config /etc/kerf/kerfd.toml
  kerfd --data-dir /var/lib/kerf --print-config > kerfd.toml
  kerfd --data-dir /var/lib/kerf --metrics-listen 127.0.0.1:9461     metrics and probes over HTTP
  kerfd --listen 127.0.0.1:0 --ready-file /tmp/kerfd.ready     pick a port and say which

SIGTERM or SIGINT: tells open streams where to resume, takes their commits for --drain-ms, ends.
A second one ends at once. SIGHUP reads at once what is read anew when it changes.)";

// By topic, as an operator looks for them, and not by folder.
constexpr std::string_view kOrder[] = {
    "role",
    // Where.
    "listen", "tls-cert", "tls-key", "tls-client-ca", "tls-client-optional", "access", "insecure",
    "data-dir", "redis", "redis-user", "redis-password-file", "redis-tls-ca", "redis-tls-name",
    "redis-replicas", "redis-expected-chunks", "redis-layout", "hint-memory", "hint-sizes",
    "hint-disk", "hint-key-file", "workers", "worker-tls-ca", "worker-tls-name", "max-calls",
    "max-worker-streams", "worker-check-ms", "worker-refresh-ms", "ready-file", "while-locked",
    // For whom.
    "repositories",
    // To watch it.
    "metrics-listen", "metrics-client-ca", "metrics-ready-file", "log-level", "log-format",
    "stall-warn-ms", "self-check-ms", "audit", "audit-max-size", "audit-on-failure",
    // With what.
    "worker-name", "worker-threads", "backend", "gpu", "gpu-plugin", "gpu-devices", "gpu-memory",
    "gpu-min-piece", "gpu-lost",
    // How much, and how long.
    "max-streams", "max-connections", "memory", "stream-memory", "max-uncommitted-chunks",
    "max-uncommitted-files", "open-timeout-ms", "idle-timeout-ms", "idle-evict-ms",
    "write-stall-timeout-ms", "index-timeout-ms", "max-index-calls", "drain-ms", "sync-commits"};

// Whose options: those of every role, of a front, and of those who cut.
enum Part : int { kOfAll, kOfFronts, kOfCutting };

constexpr std::array<std::pair<std::string_view, Role>, 3> kRoles = {
    {{"all", Role::kAll}, {"worker", Role::kWorker}, {"front", Role::kFront}}};

absl::StatusOr<Role> ParseRole(std::string_view text) {
  for (const auto& [name, role] : kRoles) {
    if (name == text) return role;
  }
  return absl::InvalidArgumentError(ToAbsl(Cat("'", text, "' is no role: all, worker or front")));
}

void AddSettings(OptionSet& options, Settings& settings) {
  options.BeginPart(kOfAll);
  options.AddParsed(
      {"role",
       "What this process is: all serves clients alone; worker does so as one of many that share "
       "an index in Redis; front passes what clients send on to workers"},
      settings.role, std::string(NameOf(settings.role)), ParseRole);
  AddServingSettings(options, settings.serving);
  AddTlsSettings(options, settings.tls);
  AddAccessSettings(options, settings.access);
  AddLifecycleSettings(options, settings.lifecycle);
  AddMetricsSettings(options, settings.metrics);
  AddLogSettings(options, settings.log);
  AddAuditSettings(options, settings.audit);
  options.BeginPart(kOfFronts);
  AddFrontSettings(options, settings.front);
  options.BeginPart(kOfCutting);
  AddIndexSettings(options, settings.cutting.index);
  AddRedisSettings(options, settings.cutting.redis);
  AddHintSettings(options, settings.cutting.hints);
  AddWorkerSettings(options, settings.cutting.worker);
  AddGpuSettings(options, settings.cutting.gpu);
  AddEdgeSettings(options, settings.cutting.edge);
  options.SetOrder(kOrder);
}

OptionProgram Kerfd() {
  return {.name = "kerfd",
          .description =
              "kerfd cuts and fingerprints what backup agents send, and says which chunks are new.",
          .footer = kExamples,
          .version = Cat("kerfd ", kVersion),
          .config_description = "A TOML file of settings, as --print-config writes it",
          .variable_prefix = "KERFD_",
          // What every program of kerf reads; kerfd's own variable goes before it.
          .shared_variable = "KERF_BACKEND",
          .shared_option = "backend"};
}

SettingsResult Usage(const std::string& message) {
  SettingsResult result;
  result.exit_code = kUsageExitCode;
  result.output = "kerfd: " + message + "\nSee kerfd --help.\n";
  return result;
}

SettingsResult Done(std::string output) {
  SettingsResult result;
  result.exit_code = 0;
  result.output = std::move(output);
  return result;
}

bool HasTcp(const std::vector<std::string>& listen) {
  return std::any_of(listen.begin(), listen.end(),
                     [](const std::string& text) { return !text.starts_with("unix:"); });
}

// What is wrong with settings that are good one by one; empty: nothing.
std::string FindContradiction(const Settings& settings) {
  if (std::string wrong = FindTlsContradiction(settings.tls, settings.serving.listen);
      !wrong.empty()) {
    return wrong;
  }
  if (!settings.access.file.empty() && settings.tls.files.certificate.empty() &&
      HasTcp(settings.serving.listen)) {
    return "--access: callers prove who they are over TLS or a unix socket: add --tls-cert and "
           "--tls-key, or listen on unix sockets alone";
  }
  if (settings.access.file.empty() && settings.tls.is_client_certificate_optional) {
    return "--tls-client-optional is for --access: else whoever comes without a certificate may do "
           "everything";
  }
  if (std::string wrong =
          FindMetricsContradiction(settings.metrics, !settings.tls.files.certificate.empty());
      !wrong.empty()) {
    return wrong;
  }
  if (std::string wrong = FindAuditContradiction(settings.audit); !wrong.empty()) return wrong;
  const bool has_redis = !settings.cutting.redis.seeds.empty();
  const bool has_data_dir = !settings.cutting.index.data_dir.empty();
  if (has_redis && has_data_dir) {
    return "--redis and --data-dir: the index is in one place only; leave one out";
  }
  if (settings.role == Role::kFront) {
    if (settings.front.workers.empty()) {
      return "a front needs --workers: HOST:PORT of each, or dns:HOST:PORT for all of a name";
    }
    if (has_redis || has_data_dir) {
      return "a front has no index: give --redis to its workers, not to the front";
    }
    if (settings.cutting.gpu.use == GpuUse::kRequire) {
      return "a front cuts nothing: give --gpu require to its workers, not to the front";
    }
    if (settings.front.worker_tls_ca.empty() && !settings.front.worker_tls_name.empty()) {
      return "--worker-tls-name is for TLS: add --worker-tls-ca";
    }
    return "";
  }
  if (!settings.front.workers.empty()) return "--workers is for fronts: add --role front";
  const RedisSettings& redis = settings.cutting.redis;
  if (redis.tls_ca.empty() && !redis.tls_name.empty()) {
    return "--redis-tls-name is for TLS: add --redis-tls-ca";
  }
  if (settings.role == Role::kWorker && !has_redis) {
    return "workers share their index: add --redis, or serve alone with --role all";
  }
  return "";
}

// Flags that mean nothing for this role. What must not be taken to hold is refused by
// FindContradiction.
std::vector<std::string> FindIgnored(Role role, const OptionSet& options) {
  const Part foreign = role == Role::kFront ? kOfCutting : kOfFronts;
  std::vector<std::string> ignored;
  for (const OptionSet::Changed& changed : options.FindChanged()) {
    // A front does what --gpu off says.
    if (changed.part == foreign && changed.name != "gpu") ignored.push_back("--" + changed.name);
  }
  return ignored;
}

}  // namespace

std::string_view NameOf(Role role) {
  for (const auto& [name, named] : kRoles) {
    if (named == role) return name;
  }
  return "";
}

SettingsResult ReadSettings(int argc, const char* const* argv, const char* const* environment) {
  SettingsResult result;
  Settings& settings = result.settings;
  bool print_config = false;
  bool print_metrics = false;
  OptionSet options;
  options.AddSwitch("print-config", print_config, "Print the effective settings as TOML and end");
  options.AddSwitch("print-metrics", print_metrics,
                    "Print what /metrics shows, as docs/metrics.md, and end");
  AddSettings(options, settings);
  OptionOutcome outcome = options.Read(Kerfd(), argc, argv, environment);
  if (outcome.kind == OptionOutcome::Kind::kWrong) return Usage(outcome.text);
  if (outcome.kind == OptionOutcome::Kind::kShow) return Done(std::move(outcome.text));
  if (print_metrics) return Done(metrics::ReferencePage());
  if (const std::string wrong = FindContradiction(settings); !wrong.empty()) return Usage(wrong);
  settings.ignored = FindIgnored(settings.role, options);
  if (print_config) return Done(options.PrintConfig("Settings of kerfd."));
  return result;
}

}  // namespace kerf
