// kerfd's settings: flags, KERFD_ environment and a TOML file, the former before the latter. Each
// folder says what can be set of it (..._settings.h); here they become one command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/access/access_settings.h"
#include "server/audit/audit_settings.h"
#include "server/edge/edge_settings.h"
#include "server/front/front_settings.h"
#include "server/hints/hint_settings.h"
#include "server/index/index_settings.h"
#include "server/lifecycle_settings.h"
#include "server/logging/log_settings.h"
#include "server/metrics/metrics_settings.h"
#include "server/net/serving_settings.h"
#include "server/net/tls_settings.h"
#include "server/redis/redis_settings.h"
#include "server/worker/worker_settings.h"

namespace kerf {

// What this process is.
enum class Role : std::uint8_t {
  // Serves its clients alone.
  kAll,
  // The same as one of many, which share an index.
  kWorker,
  // Passes calls on to workers.
  kFront,
};

// As it is written on the command line.
std::string_view NameOf(Role role);

// Of those who cut: all and worker.
struct CuttingSettings {
  IndexSettings index;
  RedisSettings redis;
  HintSettings hints;
  WorkerSettings worker;
  GpuSettings gpu;
  EdgeSettings edge;
};

struct Settings {
  Role role = Role::kAll;
  // Of every role.
  ServingSettings serving;
  LifecycleSettings lifecycle;
  TlsSettings tls;
  AccessSettings access;
  MetricsSettings metrics;
  LogSettings log;
  AuditSettings audit;
  // Of one role each; the other one does not see it.
  FrontSettings front;
  CuttingSettings cutting;
  // Flags that were set, and mean nothing for this role, as "--backend".
  std::vector<std::string> ignored;
};

// What the command line asks for.
struct SettingsResult {
  // Set: the program ends with this exit code, 0 after --help, --version and --print-..., 2 for
  // wrong usage. `output` goes to standard output for 0, else to standard error.
  std::optional<int> exit_code;
  std::string output;
  Settings settings;
};

// Reads everything and checks it. `environment` is a null-terminated list of KEY=VALUE; a KERFD_
// variable that is no setting is an error, as is an unknown key of the file.
SettingsResult ReadSettings(int argc, const char* const* argv, const char* const* environment);

}  // namespace kerf
