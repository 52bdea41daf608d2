#include "server/settings/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/version.h"

namespace kerf {
namespace {

SettingsResult Read(std::vector<const char*> arguments, std::vector<const char*> environment = {}) {
  arguments.insert(arguments.begin(), "kerfd");
  environment.push_back(nullptr);
  return ReadSettings(static_cast<int>(arguments.size()), arguments.data(), environment.data());
}

std::uint64_t HintBytes(const SettingsResult& result) {
  const CuttingSettings& cutting = result.settings.cutting;
  return MemoryBytesOf(cutting.hints, !cutting.redis.seeds.empty());
}

class SettingsTest : public testing::Test {
 protected:
  void TearDown() override { unlink(path_.c_str()); }

  std::string path_ = testing::TempDir() + "kerfd-settings-test.toml";
};

TEST_F(SettingsTest, DefaultsServeThisMachineOnly) {
  const SettingsResult result = Read({});
  ASSERT_FALSE(result.exit_code.has_value()) << result.output;
  EXPECT_EQ(result.settings.role, Role::kAll);
  EXPECT_EQ(result.settings.serving.listen, std::vector<std::string>{"127.0.0.1:7461"});
  EXPECT_EQ(result.settings.serving.memory_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(result.settings.cutting.edge.session.max_uncommitted_files, 16'384u);
  EXPECT_EQ(result.settings.lifecycle.drain.count(), 10'000);
  EXPECT_EQ(HintBytes(result), 0u);
  EXPECT_EQ(result.settings.cutting.hints.max_sizes, 2u);
  EXPECT_EQ(result.settings.cutting.gpu.use, GpuUse::kAuto);
  EXPECT_FALSE(result.settings.cutting.gpu.ends_without);
  EXPECT_EQ(Read({"--gpu", "off"}).settings.cutting.gpu.use, GpuUse::kOff);
  EXPECT_TRUE(result.settings.cutting.gpu.devices.empty());
  EXPECT_TRUE(Read({"--gpu-devices", "all"}).settings.cutting.gpu.devices.empty());
  EXPECT_EQ(Read({"--gpu-devices", "2,0"}).settings.cutting.gpu.devices,
            (std::vector<std::uint32_t>{2, 0}));
  EXPECT_EQ(HintBytes(Read({"--redis", "h:1"})), std::uint64_t{64} << 20);
  EXPECT_EQ(HintBytes(Read({"--hint-memory", "5M"})), std::uint64_t{5} << 20);
  EXPECT_EQ(result.settings.serving.idle_evict.count(), 30'000);
  EXPECT_EQ(Read({"--idle-evict-ms", "7"}).settings.serving.idle_evict.count(), 7);
  EXPECT_FALSE(result.settings.cutting.worker.name.empty());
}

TEST_F(SettingsTest, FlagsBeforeEnvironmentBeforeFile) {
  std::ofstream(path_)
      << "max-streams = 7\nmemory = \"256M\"\nlisten = [\"unix:/a\", \"[::1]:1\"]\n";
  const std::vector<const char*> environment = {"KERFD_MAX_STREAMS=8", "KERFD_DRAIN_MS=6"};
  const SettingsResult result = Read({"--config", path_.c_str(), "--drain-ms", "5"}, environment);
  ASSERT_FALSE(result.exit_code.has_value()) << result.output;
  EXPECT_EQ(result.settings.serving.max_streams, 8u);
  EXPECT_EQ(result.settings.serving.memory_bytes, std::uint64_t{256} << 20);
  EXPECT_EQ(result.settings.serving.listen, (std::vector<std::string>{"unix:/a", "[::1]:1"}));
  EXPECT_EQ(result.settings.lifecycle.drain.count(), 5);
  EXPECT_EQ(Read({"--config", path_.c_str(), "--max-streams=9"}, environment)
                .settings.serving.max_streams,
            9u);
  const std::string config = "KERFD_CONFIG=" + path_;
  EXPECT_EQ(Read({}, {config.c_str()}).settings.serving.max_streams, 7u);
  EXPECT_EQ(Read({}, {"KERFD_LISTEN=unix:/c,localhost:2"}).settings.serving.listen,
            (std::vector<std::string>{"unix:/c", "localhost:2"}));
  EXPECT_EQ(Read({}, {"KERFD_REDIS=a:1,b:2"}).settings.cutting.redis.seeds,
            (std::vector<RedisAddress>{{"a", 1}, {"b", 2}}));
  // Set to nothing is not set.
  EXPECT_EQ(Read({"--config", path_.c_str()}, {"KERFD_MAX_STREAMS="}).settings.serving.max_streams,
            7u);
}

TEST_F(SettingsTest, TheBackendMayBeNamedForAllPrograms) {
  EXPECT_EQ(Read({}).settings.cutting.worker.backend, "auto");
  EXPECT_EQ(Read({}, {"KERF_BACKEND=plain"}).settings.cutting.worker.backend, "plain");
  EXPECT_EQ(Read({}, {"KERF_BACKEND="}).settings.cutting.worker.backend, "auto");
  EXPECT_EQ(
      Read({}, {"KERF_BACKEND=plain", "KERFD_BACKEND=scalar"}).settings.cutting.worker.backend,
      "scalar");
  EXPECT_EQ(Read({"--backend", "avx2"}, {"KERF_BACKEND=plain"}).settings.cutting.worker.backend,
            "avx2");
}

TEST_F(SettingsTest, UnknownKeysAreRefusedByName) {
  std::ofstream(path_) << "max-stream = 7\n";
  SettingsResult result = Read({"--config", path_.c_str()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("max-stream"), std::string::npos) << result.output;
  result = Read({"--no-such-flag"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("no-such-flag"), std::string::npos) << result.output;
  result = Read({}, {"HOME=/root", "KERFD_MAX_STREAM=3"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("KERFD_MAX_STREAM"), std::string::npos) << result.output;
  EXPECT_FALSE(Read({}, {"KERFD_DATA_DIR=/x"}).exit_code.has_value());
}

TEST_F(SettingsTest, BadValuesAreRefused) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {"--role", "other"},
           {"--listen", "nowhere"},
           {"--memory", "much"},
           {"--max-streams", "0"},
           {"--drain-ms", "-1"},
           {"--log-level", "loud"},
           {"--config", "/no/such/file"},
           {"--redis", "nowhere"},
           {"--hint-memory", "some"},
           {"--hint-sizes", "5"},
           {"--gpu", "yes"},
           {"--gpu-lost", "never"},
           {"--gpu-memory", "some"},
           {"--gpu-min-piece", "some"},
           {"--gpu-devices", "some"},
           {"--gpu-devices", ""},
           {"--gpu-devices", "0,"},
           {"--gpu-devices", "1,0,1"},
           {"--gpu-devices", "-1"},
           {"--gpu-devices", "4294967296"},
           {"--redis", "h:1", "--data-dir", "/x"},
           {"stray"},
       }) {
    const SettingsResult result = Read(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments[0];
    EXPECT_NE(result.output.find("kerfd: "), std::string::npos);
  }
}

TEST_F(SettingsTest, NamesOfMoreGpusThanAreUsedAreRefused) {
  std::string numbers = "0";
  for (int number = 1; number < 64; ++number) numbers += "," + std::to_string(number);
  EXPECT_EQ(Read({"--gpu-devices", numbers.c_str()}).settings.cutting.gpu.devices.size(), 64u);
  numbers += ",64";
  const SettingsResult result = Read({"--gpu-devices", numbers.c_str()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("64 of them at most"), std::string::npos) << result.output;
}

TEST_F(SettingsTest, RolesHaveWhatTheyNeed) {
  const Settings front =
      Read({"--role", "front", "--workers", "dns:w:7461", "--workers", "unix:/w"}).settings;
  EXPECT_EQ(front.role, Role::kFront);
  ASSERT_EQ(front.front.workers.size(), 2u);
  EXPECT_TRUE(front.front.workers[0].is_group);
  EXPECT_EQ(front.front.workers[1].text, "unix:/w");
  EXPECT_EQ(front.serving.max_streams, 1024u);
  EXPECT_EQ(front.front.max_calls, 256u);
  EXPECT_EQ(front.front.max_worker_streams, 0u);
  EXPECT_EQ(front.front.worker_check.count(), 1000);
  EXPECT_EQ(front.front.worker_refresh.count(), 5000);
  EXPECT_EQ(Read({}, {"KERFD_ROLE=front", "KERFD_WORKERS=a:1,b:2"}).settings.front.workers.size(),
            2u);
  EXPECT_EQ(Read({"--role", "worker", "--redis", "h:1"}).settings.role, Role::kWorker);
  struct Wrong {
    std::vector<const char*> arguments;
    const char* advice;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {{"--role", "front"}, "--workers"},
           {{"--role", "front", "--workers", "nowhere"}, "HOST:PORT"},
           {{"--role", "front", "--workers", "h:1", "--redis", "h:1"}, "has no index"},
           {{"--role", "front", "--workers", "h:1", "--data-dir", "/x"}, "has no index"},
           {{"--role", "front", "--workers", "h:1", "--gpu", "require"}, "cuts nothing"},
           {{"--workers", "h:1"}, "--role front"},
           {{"--role", "worker"}, "--redis"},
           {{"--role", "worker", "--data-dir", "/x"}, "--redis"},
       }) {
    const SettingsResult result = Read(wrong.arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.output.find(wrong.advice), std::string::npos) << result.output;
  }
}

TEST_F(SettingsTest, WhatMeansNothingForTheRoleIsTold) {
  using testing::ElementsAre;
  using testing::IsEmpty;
  EXPECT_THAT(Read({"--role", "front", "--workers", "h:1", "--hint-memory", "5M", "--max-streams",
                    "7", "--sync-commits", "true"})
                  .settings.ignored,
              ElementsAre("--hint-memory", "--sync-commits"));
  EXPECT_THAT(
      Read({"--role", "front", "--workers", "h:1"}, {"KERFD_BACKEND=scalar"}).settings.ignored,
      ElementsAre("--backend"));
  EXPECT_THAT(Read({"--max-worker-streams", "7", "--hint-memory", "5M"}).settings.ignored,
              ElementsAre("--max-worker-streams"));
  // Said, and as it is anyway: a file that was printed says everything.
  EXPECT_THAT(
      Read({"--role", "front", "--workers", "h:1", "--gpu-memory", "256M"}).settings.ignored,
      IsEmpty());
}

TEST_F(SettingsTest, OtherMachinesAreServedOverTlsUnlessOneInsists) {
  for (const char* here : {"127.0.0.1:1", "127.3.2.1:1", "localhost:1", "[::1]:1",
                           "[::ffff:127.0.0.1]:1", "unix:/s"}) {
    EXPECT_FALSE(Read({"--listen", here}).exit_code.has_value()) << here;
  }
  for (const char* beyond : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "kerf.example:1", "localhost.:1",
                             "127.1:1", "[::ffff:10.0.0.1]:1"}) {
    const SettingsResult refused = Read({"--listen", "unix:/s", "--listen", beyond});
    EXPECT_EQ(refused.exit_code, 2) << beyond;
    EXPECT_THAT(
        refused.output,
        testing::AllOf(testing::HasSubstr(beyond), testing::HasSubstr("--tls-cert"),
                       testing::HasSubstr("kerf tls init"), testing::HasSubstr("--insecure")));
    EXPECT_FALSE(Read({"--listen", beyond, "--insecure"}).exit_code.has_value());
    EXPECT_FALSE(Read({"--insecure", "--listen", beyond}).exit_code.has_value());
    EXPECT_FALSE(Read({"--listen", beyond}, {"KERFD_INSECURE=true"}).exit_code.has_value());
    EXPECT_TRUE(Read({"--listen", beyond, "--insecure", "false"}).exit_code.has_value());
    EXPECT_FALSE(
        Read({"--listen", beyond, "--tls-cert", "/c", "--tls-key", "/k"}).exit_code.has_value());
  }
  for (const std::vector<const char*>& wrong : std::vector<std::vector<const char*>>{
           {"--tls-cert", "/c"},
           {"--tls-key", "/k"},
           {"--tls-client-ca", "/a"},
           {"--tls-cert", "/c", "--tls-key", "/k", "--insecure"}}) {
    const SettingsResult refused = Read(wrong);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.output, testing::HasSubstr("--tls-cert"));
  }
}

TEST_F(SettingsTest, ANameOfRedisIsForTls) {
  const SettingsResult refused = Read({"--redis", "h:1", "--redis-tls-name", "n"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, testing::HasSubstr("add --redis-tls-ca"));
  const SettingsResult result =
      Read({"--redis", "h:1", "--redis-tls-ca", "/r", "--redis-tls-name", "n"});
  ASSERT_FALSE(result.exit_code.has_value()) << result.output;
  EXPECT_EQ(result.settings.cutting.redis.tls_ca, "/r");
  EXPECT_EQ(result.settings.cutting.redis.tls_name, "n");
}

TEST_F(SettingsTest, ANameOfWorkersIsForTls) {
  const std::vector<const char*> front = {
      "--role", "front", "--workers", "h:1", "--worker-tls-name", "n"};
  const SettingsResult refused = Read(front);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, testing::HasSubstr("add --worker-tls-ca"));
  std::vector<const char*> good = front;
  good.insert(good.end(), {"--worker-tls-ca", "/w"});
  const SettingsResult result = Read(good);
  ASSERT_FALSE(result.exit_code.has_value()) << result.output;
  EXPECT_EQ(result.settings.front.worker_tls_ca, "/w");
  EXPECT_EQ(result.settings.front.worker_tls_name, "n");
}

TEST_F(SettingsTest, WhoReadsMetricsIsAboutThoseOverTls) {
  std::vector<const char*> arguments = {"--metrics-client-ca", "/m"};
  EXPECT_THAT(Read(arguments).output, testing::HasSubstr("add it"));
  arguments.insert(arguments.end(), {"--metrics-listen", "h:2"});
  const SettingsResult refused = Read(arguments);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, testing::HasSubstr("add --tls-cert"));
  arguments.insert(arguments.end(), {"--tls-cert", "/c", "--tls-key", "/k"});
  const SettingsResult result = Read(arguments);
  ASSERT_FALSE(result.exit_code.has_value()) << result.output;
  EXPECT_EQ(result.settings.metrics.client_ca, "/m");
}

TEST_F(SettingsTest, HowAnAuditLogFailsIsAboutOneThatThereIs) {
  const SettingsResult refused = Read({"--audit-on-failure", "go-on"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, testing::HasSubstr("add --audit"));
  EXPECT_EQ(Read({"--audit", "/a", "--audit-max-size", "1000K"}).exit_code, 2);
  const SettingsResult result =
      Read({"--audit", "/a", "--audit-max-size", "1M", "--audit-on-failure", "go-on"});
  ASSERT_FALSE(result.exit_code.has_value()) << result.output;
  EXPECT_EQ(result.settings.audit.path, "/a");
  EXPECT_FALSE(result.settings.audit.refuses);
  EXPECT_TRUE(Read({"--audit", "/a"}).settings.audit.refuses);
}

// No option as it is anyway.
std::vector<const char*> EachOptionChanged() {
  return {"--listen=h:1",
          "--tls-cert=/c",
          "--tls-key=/k",
          "--tls-client-ca=/a",
          "--redis-user=u",
          "--redis-password-file=/p",
          "--redis-tls-ca=/r",
          "--redis-tls-name=n",
          "--redis-replicas=2",
          "--redis-expected-chunks=7",
          "--redis-layout=1",
          "--hint-memory=5M",
          "--hint-sizes=3",
          "--hint-disk=7M",
          "--hint-key-file=/k",
          "--worker-tls-ca=/w",
          "--worker-tls-name=n",
          "--max-calls=7",
          "--max-worker-streams=7",
          "--worker-check-ms=7",
          "--worker-refresh-ms=7",
          "--ready-file=/r",
          "--metrics-listen=h:2",
          "--metrics-client-ca=/m",
          "--metrics-ready-file=/m",
          "--log-level=debug",
          "--log-format=json",
          "--stall-warn-ms=7",
          "--audit=/a",
          "--audit-max-size=7M",
          "--audit-on-failure=go-on",
          "--worker-name=[x]",
          "--worker-threads=7",
          "--backend=plain",
          "--gpu=off",
          "--gpu-plugin=/p",
          "--gpu-devices=0",
          "--gpu-memory=7M",
          "--gpu-min-piece=7K",
          "--gpu-lost=drain",
          "--max-streams=7",
          "--memory=7M",
          "--stream-memory=7M",
          "--max-uncommitted-chunks=7",
          "--max-uncommitted-files=7",
          "--open-timeout-ms=7",
          "--idle-timeout-ms=7",
          "--idle-evict-ms=7",
          "--write-stall-timeout-ms=7",
          "--index-timeout-ms=7",
          "--max-index-calls=7",
          "--repositories=created",
          "--drain-ms=7",
          "--sync-commits=true"};
}

TEST_F(SettingsTest, EachOptionMeansNothingForTheOtherRole) {
  std::vector<const char*> arguments = EachOptionChanged();
  EXPECT_THAT(
      Read(arguments).settings.ignored,
      testing::ElementsAre("--worker-tls-ca", "--worker-tls-name", "--max-calls",
                           "--max-worker-streams", "--worker-check-ms", "--worker-refresh-ms"));
  arguments.insert(arguments.end(), {"--role=front", "--workers=h:1"});
  EXPECT_THAT(
      Read(arguments).settings.ignored,
      testing::ElementsAre(
          "--redis-user", "--redis-password-file", "--redis-tls-ca", "--redis-tls-name",
          "--redis-replicas", "--redis-expected-chunks", "--redis-layout", "--hint-memory",
          "--hint-sizes", "--hint-disk", "--hint-key-file", "--repositories", "--worker-name",
          "--worker-threads", "--backend", "--gpu-plugin", "--gpu-devices", "--gpu-memory",
          "--gpu-min-piece", "--gpu-lost", "--stream-memory", "--max-uncommitted-chunks",
          "--max-uncommitted-files", "--open-timeout-ms", "--idle-timeout-ms", "--index-timeout-ms",
          "--max-index-calls", "--sync-commits"));
}

TEST_F(SettingsTest, WhatIsPrintedCanBeReadBack) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {},
           {"--memory", "300M", "--listen", "unix:/b,c", "--listen", "127.0.0.1:0",
            "--sync-commits", "true", "--max-streams", "7", "--data-dir", "/a \"b\" 'c' \\d # e",
            "--worker-name", "[x, y]"},
           {"--hint-memory", "5M", "--hint-sizes", "3", "--hint-disk", "7M", "--hint-key-file",
            "/k"},
           {"--gpu", "require", "--gpu-plugin", "/p", "--gpu-memory", "1G", "--gpu-lost", "drain",
            "--gpu-devices", "0,3", "--gpu-min-piece", "64K"},
           {"--redis", "a:1", "--redis", "[::1]:2", "--redis-replicas", "2", "--redis-user", "u",
            "--redis-password-file", "/p", "--redis-expected-chunks", "5000000000",
            "--redis-layout", "1"},
           {"--role", "front", "--workers", "h:1", "--workers", "dns:[::1]:2",
            "--max-worker-streams", "9", "--max-calls", "11", "--worker-check-ms", "70",
            "--worker-refresh-ms", "80"},
       }) {
    std::vector<const char*> printing = arguments;
    printing.push_back("--print-config");
    const SettingsResult printed = Read(printing);
    ASSERT_EQ(printed.exit_code, 0);
    std::ofstream(path_) << printed.output;
    const SettingsResult given = Read(arguments);
    const SettingsResult result = Read({"--config", path_.c_str()});
    ASSERT_FALSE(result.exit_code.has_value()) << result.output << printed.output;
    EXPECT_EQ(result.settings.serving.memory_bytes, given.settings.serving.memory_bytes);
    EXPECT_EQ(result.settings.serving.listen, given.settings.serving.listen);
    EXPECT_EQ(result.settings.cutting.index.sync_commits,
              given.settings.cutting.index.sync_commits);
    EXPECT_EQ(result.settings.serving.max_streams, given.settings.serving.max_streams);
    EXPECT_EQ(result.settings.cutting.index.data_dir, given.settings.cutting.index.data_dir);
    EXPECT_EQ(result.settings.cutting.worker.name, given.settings.cutting.worker.name);
    EXPECT_EQ(result.settings.cutting.redis.seeds, given.settings.cutting.redis.seeds);
    EXPECT_EQ(HintBytes(result), HintBytes(given));
    EXPECT_EQ(result.settings.cutting.hints.max_sizes, given.settings.cutting.hints.max_sizes);
    EXPECT_EQ(result.settings.cutting.gpu.use, given.settings.cutting.gpu.use);
    EXPECT_EQ(result.settings.cutting.gpu.plugin, given.settings.cutting.gpu.plugin);
    EXPECT_EQ(result.settings.cutting.gpu.memory_bytes, given.settings.cutting.gpu.memory_bytes);
    EXPECT_EQ(result.settings.cutting.gpu.devices, given.settings.cutting.gpu.devices);
    EXPECT_EQ(result.settings.cutting.gpu.ends_without, given.settings.cutting.gpu.ends_without);
    EXPECT_EQ(result.settings.role, given.settings.role);
    EXPECT_EQ(result.settings.front.workers.size(), given.settings.front.workers.size());
    EXPECT_EQ(result.settings.front.max_worker_streams, given.settings.front.max_worker_streams);
    EXPECT_EQ(result.settings.front.max_calls, given.settings.front.max_calls);
    EXPECT_EQ(result.settings.front.worker_check, given.settings.front.worker_check);
    EXPECT_EQ(result.settings.front.worker_refresh, given.settings.front.worker_refresh);
    EXPECT_EQ(result.settings.cutting.redis.replica_count,
              given.settings.cutting.redis.replica_count);
    EXPECT_EQ(result.settings.cutting.redis.expected_chunk_count,
              given.settings.cutting.redis.expected_chunk_count);
    EXPECT_EQ(result.settings.cutting.redis.layout, given.settings.cutting.redis.layout);
    // All of them, the same again.
    EXPECT_EQ(Read({"--config", path_.c_str(), "--print-config"}).output, printed.output);
  }
}

TEST_F(SettingsTest, BadFilesAreRefusedWithTheirLine) {
  for (const char* text : {
           "max-stream = 7",
           "max_streams = 7",
           "[server]\nmax-streams = 7",
           "max-streams 7",
           "max-streams = 5\nmax-streams = 6",
           "worker-name = \"x",
           "max-streams = 5 6",
           "max-streams = 1.5",
           "= 3",
           "\x01",
           "print-config = true",
           "config = \"x\"",
           "help = true",
           "worker-name = \"\xff\"",
       }) {
    std::ofstream(path_) << "# first\n" << text << "\n";
    const SettingsResult result = Read({"--config", path_.c_str()});
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_NE(result.output.find(path_), std::string::npos) << result.output;
    EXPECT_TRUE(result.output.find("line 2") != std::string::npos ||
                result.output.find("line 3") != std::string::npos)
        << text << "\n"
        << result.output;
  }
  for (const char* text : {"max-streams = \"abc\"", "max-streams = 0", "max-streams = [1, 2]",
                           "sync-commits = \"maybe\"", "listen = \"nowhere\"", "drain-ms = -1"}) {
    std::ofstream(path_) << text << "\n";
    const SettingsResult result = Read({"--config", path_.c_str()});
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_NE(result.output.find(std::string(text).substr(0, std::string(text).find(' '))),
              std::string::npos)
        << result.output;
  }
}

TEST_F(SettingsTest, AnEmptyVariableIsNotSet) {
  EXPECT_EQ(Read({}, {"KERFD_MAX_STREAMS="}).settings.serving.max_streams, 1'024u);
}

// Names, defaults, bounds and words of all settings: whoever changes one here means to.
TEST_F(SettingsTest, HelpIsAsItWasWritten) {
  std::ifstream file("server/settings/testdata/help.txt");
  const std::string written{std::istreambuf_iterator<char>(file), {}};
  std::string help = Read({"--help"}).output;
  // It has this machine's name.
  const std::size_t begin = help.find("  --worker-name");
  help.erase(begin, help.find("  --worker-threads") - begin);
  EXPECT_EQ(help, written);
}

TEST_F(SettingsTest, HelpAndVersion) {
  SettingsResult result = Read({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("Examples:"), std::string::npos);
  EXPECT_NE(result.output.find("KERFD_DATA_DIR"), std::string::npos);
  result = Read({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "kerfd " + std::string(kVersion) + "\n");
}

}  // namespace
}  // namespace kerf
