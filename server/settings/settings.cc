#include "server/settings/settings.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "base/toml.h"
#include "base/toml_config.h"
#include "base/units.h"
#include "base/version.h"
#include "kernels/registry.h"
#include "server/metrics/catalog.h"
#include "server/net/listen_address.h"
#include "server/redis/address.h"
#include "server/routing/worker_address.h"

namespace kerf {
namespace {

constexpr std::string_view kEnvironmentPrefix = "KERFD_";
constexpr std::string_view kSharedBackend = "KERF_BACKEND=";
constexpr int kUsageExitCode = 2;
constexpr std::string_view kAutomaticHintMemory = "auto";
constexpr std::string_view kSharedHintMemory = "64M";
constexpr std::uint64_t kMaxExpectedChunks = 1'000'000'000'000;
constexpr std::string_view kAllGpus = "all";
constexpr std::uint32_t kMaxGpuNumber = 999;

constexpr const char* kExamples = R"(
Settings come from flags, from KERFD_ environment variables (KERFD_DATA_DIR for --data-dir; a list with commas) and
from a TOML file (--config), the first before the second before the third.

Examples:
  kerfd --data-dir /var/lib/kerf                       serve 127.0.0.1:7461
  kerfd --data-dir /var/lib/kerf --listen unix:/run/kerf.sock --listen 0.0.0.0:7461
  kerfd --redis redis-1:6379 --redis redis-2:6379 --redis-password-file /etc/kerf/redis.password
  kerfd --role worker --redis redis-1:6379 --listen 0.0.0.0:7461      one of many behind fronts
  kerfd --role front --workers dns:kerf-worker:7461 --listen 0.0.0.0:7461
  kerfd --role front --workers host-1:7461 --workers host-2:7461
  kerfd --config /etc/kerf/kerfd.toml
  kerfd --data-dir /var/lib/kerf --print-config > kerfd.toml
  kerfd --data-dir /var/lib/kerf --metrics-listen 127.0.0.1:9461     metrics and probes over HTTP
  kerfd --listen 127.0.0.1:0 --ready-file /tmp/kerfd.ready     pick a port and say which

SIGTERM or SIGINT: tells open streams where to resume, takes their commits for --drain-ms, ends.
A second one ends at once.)";

// Sizes are kept as text until all is read, so that --print-config writes what a person wrote.
struct Texts {
  std::string role = "all";
  std::vector<std::string> redis;
  std::vector<std::string> workers;
  std::string memory = "1G";
  std::string stream_memory = "16M";
  std::string hint_memory{kAutomaticHintMemory};
  std::string hint_disk = "1G";
  std::string gpu = "auto";
  std::string gpu_devices{kAllGpus};
  std::string gpu_memory = "256M";
  std::string gpu_lost = "cpu";
  std::string log_level = "info";
  std::string log_format = "text";
};

std::string CheckSize(const std::string& text) {
  const auto parsed = ParseByteSize(text);
  return parsed.ok() ? "" : std::string(MessageOf(parsed.status()));
}

// As "0,1"; nothing if it is not that, or names one twice.
std::optional<std::vector<std::uint32_t>> ParseGpuNumbers(std::string_view text) {
  std::vector<std::uint32_t> numbers;
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool is_number = error == std::errc() && end == part.data() + part.size();
    if (!is_number || number > kMaxGpuNumber) return std::nullopt;
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) return std::nullopt;
    numbers.push_back(number);
    if (part.size() == text.size()) return numbers;
    text.remove_prefix(part.size() + 1);
  }
}

std::string CheckGpuDevices(const std::string& text) {
  if (text == kAllGpus || ParseGpuNumbers(text).has_value()) return "";
  return "'" + text + "' names no GPUs: all, or numbers as 0,1, each once";
}

std::string CheckHintMemory(const std::string& text) {
  return text == kAutomaticHintMemory ? "" : CheckSize(text);
}

std::string CheckListen(const std::string& text) {
  const auto parsed = ParseListenAddress(text);
  return parsed.ok() ? "" : std::string(MessageOf(parsed.status()));
}

std::string CheckMetricsListen(const std::string& text) {
  if (text.empty()) return "";
  const auto parsed = ParseListenAddress(text);
  if (!parsed.ok()) return std::string(MessageOf(parsed.status()));
  return parsed->is_unix ? "'" + text + "': HTTP is served at HOST:PORT, as 127.0.0.1:9461" : "";
}

std::string CheckRedis(const std::string& text) {
  const auto parsed = ParseRedisAddress(text);
  return parsed.ok() ? "" : std::string(MessageOf(parsed.status()));
}

std::string CheckWorkers(const std::string& text) {
  const auto parsed = routing::ParseWorkerAddress(text);
  return parsed.ok() ? "" : std::string(MessageOf(parsed.status()));
}

const std::map<std::string, Role>& Roles() {
  static const std::map<std::string, Role> roles = {
      {"all", Role::kAll}, {"worker", Role::kWorker}, {"front", Role::kFront}};
  return roles;
}

std::string CheckRole(const std::string& role) {
  return Roles().count(role) > 0 ? "" : "'" + role + "' is no role: all, worker or front";
}

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "kerfd";
  return name.data();
}

std::string EnvironmentName(const std::string& option) {
  std::string name(kEnvironmentPrefix);
  for (const char character : option) {
    name.push_back(character == '-' ? '_' : static_cast<char>(std::toupper(character)));
  }
  return name;
}

std::string TomlOf(const std::string& value) { return QuoteToml(value); }
std::string TomlOf(std::uint32_t value) { return Cat(value); }
std::string TomlOf(std::uint64_t value) { return Cat(value); }
std::string TomlOf(bool value) { return value ? "true" : "false"; }
std::string TomlOf(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + QuoteToml(value);
  return "[" + text + "]";
}

class Builder {
 public:
  explicit Builder(CLI::App& app) : app_(app) {}

  template <typename Value>
  CLI::Option* Add(const std::string& name, Value& value, const std::string& description) {
    CLI::Option* const option = app_.add_option("--" + name, value, description);
    option->capture_default_str();
    variables_.insert(EnvironmentName(name));
    changes_.emplace_back(name,
                          [&value, initial = TomlOf(value)] { return TomlOf(value) != initial; });
    printers_.emplace_back([=, &value] {
      const std::string text = TomlOf(value);
      // A list with nothing in it cannot be given.
      const std::string_view mark = text == "[]" ? "# " : "";
      return Cat("# ", description, "\n", mark, name, " = ", text, "\n\n");
    });
    return option;
  }

  // A time of at least 1 ms and at most a day, which keeps sums of a few from overflowing anything.
  void AddMs(const std::string& name, std::uint32_t& value, const std::string& description) {
    Add(name, value, description)->check(CLI::Range(1u, 86'400'000u))->type_name("MS");
  }

  void AddSize(const std::string& name, std::string& value, const std::string& description) {
    Add(name, value, description)->check(CheckSize, "")->type_name("SIZE");
  }

  // The names of those that are not as they were in the beginning.
  std::vector<std::string> FindChanged() const {
    std::vector<std::string> names;
    for (const auto& [name, is_changed] : changes_) {
      if (is_changed()) names.push_back(name);
    }
    return names;
  }

  // The environment's names of all settings.
  const std::set<std::string>& variables() const { return variables_; }

  // The values as they are now, as a file for --config.
  std::string Print() const {
    std::string text = "# Settings of kerfd.\n\n";
    for (const auto& printer : printers_) text += printer();
    return text;
  }

 private:
  CLI::App& app_;
  std::set<std::string> variables_ = {"KERFD_CONFIG"};
  std::vector<std::function<std::string()>> printers_;
  std::vector<std::pair<std::string, std::function<bool()>>> changes_;
};

struct Milliseconds {
  std::uint32_t open = 10'000;
  std::uint32_t idle = 60'000;
  std::uint32_t idle_evict = 30'000;
  std::uint32_t write_stall = 60'000;
  std::uint32_t index = 60'000;
  std::uint32_t drain = 10'000;
  std::uint32_t stall_warn = 10'000;
  std::uint32_t worker_check = 1'000;
  std::uint32_t worker_refresh = 5'000;
};

void AddRedisOptions(Builder& builder, Settings& settings, Texts& texts) {
  builder
      .Add(
          "redis", texts.redis,
          "Keep the index in this Redis, or in the cluster that it is a node of: HOST:PORT; may be "
          "repeated")
      ->check(CheckRedis, "")
      ->type_name("ADDRESS");
  builder.Add("redis-user", settings.redis_user,
              "Who kerfd is to Redis (ACL); default user if empty");
  builder
      .Add("redis-password-file", settings.redis_password_file,
           "The first line of this file is the password for Redis")
      ->type_name("FILE");
  builder
      .Add(
          "redis-replicas", settings.redis_replicas,
          "Replicas of Redis that must have a commit before it is answered; 0 for a Redis that has "
          "none")
      ->check(CLI::Range(0u, 100u));
  builder
      .Add(
          "redis-expected-chunks", settings.redis_expected_chunks,
          "A new repository gets room in Redis for so many chunks at once (at most 262,144 buckets "
          "of 130 bytes each); it grows with the repository in any case")
      ->check(CLI::Range(std::uint64_t{0}, kMaxExpectedChunks));
}

void AddFrontOptions(Builder& builder, Settings& settings, Texts& texts, Milliseconds& times) {
  builder
      .Add("workers", texts.workers,
           "Of a front: a worker, as HOST:PORT or unix:PATH, or dns:HOST:PORT for all addresses of "
           "HOST, as of a headless Service; may be repeated. All fronts must write the same")
      ->check(CheckWorkers, "")
      ->type_name("ADDRESS");
  builder
      .Add("max-calls", settings.max_calls,
           "Of a front: calls that are no uploads at the same time; more are refused. To each of "
           "several workers at most three quarters of them")
      ->check(CLI::Range(1u, 1'000'000u));
  builder
      .Add("max-worker-streams", settings.max_worker_streams,
           "Of a front: uploads to one worker at the same time; more are refused, so that a worker "
           "that is stuck does not take all places. 0: three quarters of --max-streams, or all if "
           "there is one worker only")
      ->check(CLI::Range(0u, 1'000'000u));
  builder.AddMs("worker-check-ms", times.worker_check,
                "Of a front: a worker is asked for its health this often, and given as long to "
                "answer; one that is gone less and less often, down to every 5 s");
  builder.AddMs("worker-refresh-ms", times.worker_refresh,
                "Of a front: names of dns: are looked up this often");
}

void AddHintOptions(Builder& builder, Settings& settings, Texts& texts) {
  builder
      .Add("hint-memory", texts.hint_memory,
           "For what is known of how files went on, so that they need not be scanned again, nor "
           "asked "
           "for chunk by chunk; 0: nothing is kept; auto: 64M with --redis, else 0 (worth it "
           "without "
           "Redis for profiles of rabin, crc and tttd)")
      ->check(CheckHintMemory, "")
      ->type_name("SIZE");
  builder
      .Add("hint-sizes", settings.hint_sizes,
           "How many lengths of the chunk behind a chunk are remembered, the last one first, for "
           "profiles with a criterion (as fastcdc-8k+ff), in an eighth of --hint-memory; 0: none")
      ->check(CLI::Range(0u, 4u));
  builder.AddSize("hint-disk", texts.hint_disk, "The same on disk, in DIR/hints of --data-dir");
  builder
      .Add(
          "hint-key-file", settings.hint_key_file,
          "32 random bytes that all kerfd of one Redis share: with it they believe what the others "
          "have left there. Without it hints stay in this process; --data-dir has its own key")
      ->type_name("FILE");
}

void AddGpuOptions(Builder& builder, Settings& settings, Texts& texts) {
  builder
      .Add("gpu", texts.gpu,
           "Whether GPUs cut and fingerprint what they are faster at: auto if there are any (and "
           "--backend is auto), require or kerfd does not start, off. The answers are the same")
      ->check(CLI::IsMember({"auto", "require", "off"}));
  builder
      .Add("gpu-plugin", settings.gpu_plugin,
           "The plug-in that came with this kerfd; libkerf_cuda.so beside it if empty")
      ->type_name("FILE");
  builder
      .Add("gpu-devices", texts.gpu_devices,
           "Which GPUs: all, or their numbers as the system counts them, with commas, as 0,1")
      ->check(CheckGpuDevices, "")
      ->type_name("NUMBERS");
  builder.AddSize("gpu-memory", texts.gpu_memory,
                  "Of each GPU, for batches on their way; about half as much of this machine's is "
                  "pinned for them");
  builder
      .Add("gpu-lost", texts.gpu_lost,
           "What follows when a GPU fails, or is wrong: cpu goes on with the others and the CPU, "
           "drain stops as "
           "after SIGTERM and ends with exit code 1, to be started anew. Nothing is lost either "
           "way")
      ->check(CLI::IsMember({"cpu", "drain"}));
}

void AddWatchOptions(Builder& builder, Settings& settings, Texts& texts, Milliseconds& times) {
  builder
      .Add("metrics-listen", settings.metrics_listen,
           "Answer /metrics (for Prometheus), /healthz and /readyz over HTTP at HOST:PORT, port 0 "
           "picks one; without TLS and to anybody. Nothing if empty")
      ->check(CheckMetricsListen, "")
      ->type_name("ADDRESS");
  builder
      .Add("metrics-ready-file", settings.metrics_ready_file,
           "Written once that is answered, which is before kerfd serves: the bound address")
      ->type_name("FILE");
  builder.Add("log-level", texts.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  builder
      .Add("log-format", texts.log_format,
           "Of the log on standard error: text, or json, which is one object a line")
      ->check(CLI::IsMember({"text", "json"}));
  builder.AddMs("stall-warn-ms", times.stall_warn,
                "The log tells of a stream that waits for one thing for this long, and for what");
}

void AddLimitOptions(Builder& builder, Settings& settings, Texts& texts, Milliseconds& times) {
  builder
      .Add("max-streams", settings.max_streams,
           "Uploads of this process at the same time; more are refused")
      ->check(CLI::Range(1u, 1'000'000u));
  builder.AddSize("memory", texts.memory,
                  "Of all streams: half for cutting and uncommitted chunks, a quarter for messages "
                  "that wait. gRPC's buffers may take as much once more. Of a front: for all "
                  "messages; half is for those on their way to workers, an equal share for each of "
                  "--max-streams");
  builder.AddSize("stream-memory", texts.stream_memory,
                  "Of one stream: half for its cut buffer, a quarter for messages that wait");
  builder
      .Add("max-uncommitted-chunks", settings.limits.max_uncommitted_chunks,
           "Of one stream; about 150 bytes of memory each")
      ->check(CLI::Range(1u, 16'777'216u));
  builder
      .Add("max-uncommitted-files", settings.limits.max_uncommitted_files,
           "Of one stream; about 120 bytes of memory each")
      ->check(CLI::Range(1u, 16'777'216u));
  builder.AddMs("open-timeout-ms", times.open, "A stream without Open ends after this");
  builder.AddMs("idle-timeout-ms", times.idle,
                "A stream that says nothing in mid-file ends after this");
  builder.AddMs("idle-evict-ms", times.idle_evict,
                "When places or memory run out, a stream that was silent between files for this "
                "long is ended for others");
  builder.AddMs("write-stall-timeout-ms", times.write_stall,
                "A stream whose client does not read its answers ends after this");
  builder.AddMs("index-timeout-ms", times.index,
                "What waits for the index for longer is answered INDEX_UNAVAILABLE");
  builder
      .Add("max-index-calls", settings.max_index_calls,
           "Calls of the Index service at the same time; more are refused")
      ->check(CLI::Range(1u, 100'000u));
}

void AddOptions(Builder& builder, Settings& settings, Texts& texts, Milliseconds& times) {
  builder
      .Add("role", texts.role,
           "What this process is: all serves clients alone; worker does so as one of many that "
           "share "
           "an index in Redis; front passes what clients send on to workers")
      ->check(CheckRole, "");
  builder
      .Add("listen", settings.listen,
           "Where to serve: unix:PATH or HOST:PORT, port 0 picks one; may be repeated")
      ->check(CheckListen, "")
      ->type_name("ADDRESS");
  builder
      .Add("data-dir", settings.data_dir,
           "Folder of the index (DIR/index). Without it and without --redis the index is in memory "
           "and goes with the process")
      ->type_name("DIR");
  AddRedisOptions(builder, settings, texts);
  AddHintOptions(builder, settings, texts);
  AddFrontOptions(builder, settings, texts, times);
  builder
      .Add("ready-file", settings.ready_file,
           "Written once kerfd serves: the bound addresses, one a line")
      ->type_name("FILE");
  AddWatchOptions(builder, settings, texts, times);
  builder.Add("worker-name", settings.worker_name, "Names this process to clients");
  builder
      .Add("worker-threads", settings.worker_threads,
           "Threads that cut and hash; 0: one for each core")
      ->check(CLI::Range(0u, 1024u));
  builder.Add("backend", settings.backend,
              "Kernels that cut, where they know the algorithm: plain, scalar, sse4, avx2, avx512, "
              "avx512vbmi, neon; auto measures which is the fastest here");
  AddGpuOptions(builder, settings, texts);
  AddLimitOptions(builder, settings, texts, times);
  builder.AddMs("drain-ms", times.drain, "How long a stopping kerfd still takes commits");
  builder.Add(
      "sync-commits", settings.sync_commits,
      "Wait for the disk on each commit (true or false). Without it a power cut may cost an "
      "agent a second upload, never its data");
}

// The variable's option, as "--data-dir" for KERFD_DATA_DIR.
std::string OptionName(std::string_view variable) {
  std::string name = "--";
  for (const char character : variable.substr(kEnvironmentPrefix.size())) {
    name.push_back(character == '_' ? '-' : static_cast<char>(std::tolower(character)));
  }
  return name;
}

bool IsGiven(const std::vector<std::string>& arguments, const std::string& option) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == option || argument.rfind(option + "=", 0) == 0;
  });
}

// Adds the environment's settings to the arguments, unless a flag stands there already: CLI11
// itself would let the file win over the environment. Returns the name of a variable that is no
// setting.
std::string AddEnvironment(const char* const* environment, const std::set<std::string>& known,
                           std::vector<std::string>& arguments) {
  const std::vector<std::string> flags = arguments;
  // What every program of kerf reads; kerfd's own variable goes before it.
  std::string_view shared_backend;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (entry.starts_with(kSharedBackend)) shared_backend = entry.substr(kSharedBackend.size());
    if (entry.substr(0, kEnvironmentPrefix.size()) != kEnvironmentPrefix) continue;
    const std::size_t equals = entry.find('=');
    const std::string name(entry.substr(0, equals));
    if (known.count(name) == 0) return name;
    const std::string option = OptionName(name);
    if (equals == std::string_view::npos || IsGiven(flags, option)) continue;
    std::string_view value = entry.substr(equals + 1);
    // Set to nothing is not set.
    if (value.empty()) continue;
    // A list: KERFD_LISTEN=unix:/run/kerf.sock,127.0.0.1:7461.
    const bool is_list = option == "--listen" || option == "--redis" || option == "--workers";
    while (is_list && value.find(',') != std::string_view::npos) {
      arguments.push_back(Cat(option, "=", value.substr(0, value.find(','))));
      value.remove_prefix(value.find(',') + 1);
    }
    arguments.push_back(Cat(option, "=", value));
  }
  if (!shared_backend.empty() && !IsGiven(arguments, "--backend")) {
    arguments.push_back(Cat("--backend=", shared_backend));
  }
  return "";
}

void Convert(const Texts& texts, const Milliseconds& times, Settings& settings) {
  for (const std::string& address : texts.redis) {
    settings.redis.push_back(*ParseRedisAddress(address));
  }
  settings.role = Roles().at(texts.role);
  for (const std::string& address : texts.workers) {
    settings.workers.push_back(*routing::ParseWorkerAddress(address));
  }
  settings.worker_check = std::chrono::milliseconds(times.worker_check);
  settings.worker_refresh = std::chrono::milliseconds(times.worker_refresh);
  settings.memory_bytes = *ParseByteSize(texts.memory);
  settings.stream_memory_bytes = *ParseByteSize(texts.stream_memory);
  // Where the index is at hand and the profile's rule is fast, hints save nothing.
  const std::string_view automatic = settings.redis.empty() ? "0" : kSharedHintMemory;
  settings.hint_memory_bytes = *ParseByteSize(
      texts.hint_memory == kAutomaticHintMemory ? automatic : std::string_view(texts.hint_memory));
  settings.hint_disk_bytes = *ParseByteSize(texts.hint_disk);
  static const std::map<std::string, GpuUse> uses = {
      {"auto", GpuUse::kAuto}, {"require", GpuUse::kRequire}, {"off", GpuUse::kOff}};
  settings.gpu = uses.at(texts.gpu);
  if (texts.gpu_devices != kAllGpus) settings.gpu_devices = *ParseGpuNumbers(texts.gpu_devices);
  settings.gpu_memory_bytes = *ParseByteSize(texts.gpu_memory);
  settings.ends_without_gpu = texts.gpu_lost == "drain";
  settings.open_timeout = std::chrono::milliseconds(times.open);
  settings.idle_timeout = std::chrono::milliseconds(times.idle);
  settings.idle_evict = std::chrono::milliseconds(times.idle_evict);
  settings.write_stall_timeout = std::chrono::milliseconds(times.write_stall);
  settings.index_timeout = std::chrono::milliseconds(times.index);
  settings.drain = std::chrono::milliseconds(times.drain);
  static const std::map<std::string, LogLevel> levels = {{"debug", LogLevel::kDebug},
                                                         {"info", LogLevel::kInfo},
                                                         {"warning", LogLevel::kWarning},
                                                         {"error", LogLevel::kError}};
  settings.log_level = levels.at(texts.log_level);
  settings.log_format = texts.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  settings.stall_warn = std::chrono::milliseconds(times.stall_warn);
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

// What is wrong with settings that are good one by one; empty: nothing.
std::string FindContradiction(const Settings& settings) {
  const bool has_index = !settings.redis.empty() || !settings.data_dir.empty();
  if (!settings.redis.empty() && !settings.data_dir.empty()) {
    return "--redis and --data-dir: the index is in one place only; leave one out";
  }
  if (settings.role == Role::kFront) {
    if (settings.workers.empty()) {
      return "a front needs --workers: HOST:PORT of each, or dns:HOST:PORT for all of a name";
    }
    if (has_index) return "a front has no index: give --redis to its workers, not to the front";
    if (settings.gpu == GpuUse::kRequire) {
      return "a front cuts nothing: give --gpu require to its workers, not to the front";
    }
    return "";
  }
  if (!settings.workers.empty()) return "--workers is for fronts: add --role front";
  if (settings.role == Role::kWorker && settings.redis.empty()) {
    return "workers share their index: add --redis, or serve alone with --role all";
  }
  return "";
}

// Those of `changed` that mean nothing for this role. What must not be taken to hold is refused by
// FindContradiction.
std::vector<std::string> FindIgnored(Role role, const std::vector<std::string>& changed) {
  static const std::set<std::string> of_fronts = {"max-calls", "max-worker-streams",
                                                  "worker-check-ms", "worker-refresh-ms"};
  static const std::set<std::string> not_of_fronts = {"redis-user",
                                                      "redis-password-file",
                                                      "redis-replicas",
                                                      "redis-expected-chunks",
                                                      "hint-memory",
                                                      "hint-sizes",
                                                      "hint-disk",
                                                      "hint-key-file",
                                                      "worker-name",
                                                      "worker-threads",
                                                      "backend",
                                                      "gpu-plugin",
                                                      "gpu-devices",
                                                      "gpu-memory",
                                                      "gpu-lost",
                                                      "stream-memory",
                                                      "max-uncommitted-chunks",
                                                      "max-uncommitted-files",
                                                      "open-timeout-ms",
                                                      "idle-timeout-ms",
                                                      "index-timeout-ms",
                                                      "max-index-calls",
                                                      "sync-commits"};
  const std::set<std::string>& foreign = role == Role::kFront ? not_of_fronts : of_fronts;
  std::vector<std::string> ignored;
  for (const std::string& name : changed) {
    if (foreign.count(name) > 0) ignored.push_back("--" + name);
  }
  return ignored;
}

SettingsResult Read(int argc, const char* const* argv, const char* const* environment) {
  SettingsResult result;
  Settings& settings = result.settings;
  settings.listen = {"127.0.0.1:7461"};
  settings.worker_name = HostName();
  settings.backend = kAutomaticBackend;
  settings.redis_replicas = 1;
  settings.max_streams = 1024;
  settings.max_calls = 256;
  settings.max_index_calls = 64;
  Texts texts;
  Milliseconds times;
  bool print_config = false;
  bool print_metrics = false;

  CLI::App app(
      "kerfd cuts and fingerprints what backup agents send, and says which chunks are new.",
      "kerfd");
  app.footer(kExamples);
  app.set_config("--config", "", "A TOML file of settings, as --print-config writes it")
      ->check(CLI::ExistingFile);
  app.config_formatter(MakeTomlConfig(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.set_version_flag("--version", Cat("kerfd ", kVersion));
  app.add_flag("--print-config", print_config, "Print the effective settings as TOML and end")
      ->configurable(false);
  app.add_flag("--print-metrics", print_metrics,
               "Print what /metrics shows, as docs/metrics.md, and end")
      ->configurable(false);
  Builder builder(app);
  AddOptions(builder, settings, texts, times);

  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const std::string unknown = AddEnvironment(environment, builder.variables(), arguments);
      !unknown.empty()) {
    return Usage("the environment variable " + unknown + " is no setting");
  }
  try {
    // CLI11 takes them from the back.
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return Done(app.help());
  } catch (const CLI::CallForVersion&) {
    return Done(Cat("kerfd ", kVersion, "\n"));
  } catch (const CLI::ParseError& error) {
    return Usage(error.what());
  }
  if (print_metrics) return Done(metrics::ReferencePage());
  Convert(texts, times, settings);
  if (const std::string wrong = FindContradiction(settings); !wrong.empty()) return Usage(wrong);
  settings.ignored = FindIgnored(settings.role, builder.FindChanged());
  if (print_config) return Done(builder.Print());
  return result;
}

}  // namespace

std::string_view NameOf(Role role) {
  for (const auto& [name, named] : Roles()) {
    if (named == role) return name;
  }
  return "";
}

SettingsResult ReadSettings(int argc, const char* const* argv, const char* const* environment) {
  // CLI11 throws; nothing of it leaves this file.
  try {
    return Read(argc, argv, environment);
  } catch (const std::exception& error) {
    return Usage(error.what());
  }
}

}  // namespace kerf
