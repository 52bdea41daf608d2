// kerfd's settings: flags, KERFD_ environment and a TOML file, the former before the latter.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/logging/logging.h"
#include "server/redis/address.h"
#include "server/routing/worker_address.h"
#include "server/session/session.h"

namespace kerf {

// Whether files are cut by GPUs.
enum class GpuUse : std::uint8_t {
  kOff,
  // If there is one.
  kAuto,
  // Or kerfd does not start.
  kRequire,
};

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

struct Settings {
  Role role = Role::kAll;
  std::vector<std::string> listen;
  // Empty, and no `redis`: an index in memory. Not both.
  std::string data_dir;
  // Nodes of a Redis Cluster, or one Redis.
  std::vector<RedisAddress> redis;
  std::string redis_user;
  // Empty: no password.
  std::string redis_password_file;
  std::uint32_t redis_replicas = 0;
  // Of each repository that is made in Redis.
  std::uint64_t redis_expected_chunks = 0;
  // 0: files are cut without hints.
  std::uint64_t hint_memory_bytes = 0;
  // Of a size list, for profiles with a criterion.
  std::uint32_t hint_sizes = 2;
  // On disk, with data_dir.
  std::uint64_t hint_disk_bytes = 0;
  // Empty: that of data_dir, or one for this process alone.
  std::string hint_key_file;
  // Empty: none.
  std::string ready_file;
  // HOST:PORT; empty: nothing is said over HTTP.
  std::string metrics_listen;
  // Empty: none.
  std::string metrics_ready_file;
  std::string worker_name;
  std::uint32_t worker_threads = 0;
  // Of the kernels that cut: "auto" or a name. Whether there is one is not checked here.
  std::string backend;
  GpuUse gpu = GpuUse::kAuto;
  // Empty: libkerf_cuda.so beside kerfd.
  std::string gpu_plugin;
  // As the system counts them; empty: all.
  std::vector<std::uint32_t> gpu_devices;
  // Of each.
  std::uint64_t gpu_memory_bytes = 0;
  // When one is lost, drain and end, so that whoever started kerfd starts it anew.
  bool ends_without_gpu = false;
  std::uint32_t max_streams = 0;
  // Of a front.
  std::vector<routing::WorkerAddress> workers;
  std::uint32_t max_calls = 0;
  // 0: max_streams if there is one worker, else three quarters of them.
  std::uint32_t max_worker_streams = 0;
  std::chrono::milliseconds worker_check{0};
  std::chrono::milliseconds worker_refresh{0};
  std::uint64_t memory_bytes = 0;
  std::uint64_t stream_memory_bytes = 0;
  SessionLimits limits;
  std::chrono::milliseconds open_timeout{0};
  std::chrono::milliseconds idle_timeout{0};
  std::chrono::milliseconds idle_evict{0};
  std::chrono::milliseconds write_stall_timeout{0};
  std::chrono::milliseconds index_timeout{0};
  std::uint32_t max_index_calls = 0;
  std::chrono::milliseconds drain{0};
  bool sync_commits = false;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  std::chrono::milliseconds stall_warn{0};
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
