#include "server/settings/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace kerf {
namespace {

SettingsResult Read(std::vector<const char*> arguments, std::vector<const char*> environment = {}) {
  arguments.insert(arguments.begin(), "kerfd");
  environment.push_back(nullptr);
  return ReadSettings(static_cast<int>(arguments.size()), arguments.data(), environment.data());
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
  EXPECT_EQ(result.settings.listen, std::vector<std::string>{"127.0.0.1:7461"});
  EXPECT_EQ(result.settings.memory_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(result.settings.limits.max_uncommitted_files, 16'384u);
  EXPECT_EQ(result.settings.drain.count(), 10'000);
  EXPECT_EQ(result.settings.hint_memory_bytes, 0u);
  EXPECT_EQ(result.settings.hint_sizes, 2u);
  EXPECT_EQ(result.settings.gpu, GpuUse::kAuto);
  EXPECT_FALSE(result.settings.ends_without_gpu);
  EXPECT_EQ(Read({"--gpu", "off"}).settings.gpu, GpuUse::kOff);
  EXPECT_TRUE(result.settings.gpu_devices.empty());
  EXPECT_TRUE(Read({"--gpu-devices", "all"}).settings.gpu_devices.empty());
  EXPECT_EQ(Read({"--gpu-devices", "2,0"}).settings.gpu_devices,
            (std::vector<std::uint32_t>{2, 0}));
  EXPECT_EQ(Read({"--redis", "h:1"}).settings.hint_memory_bytes, std::uint64_t{64} << 20);
  EXPECT_EQ(Read({"--hint-memory", "5M"}).settings.hint_memory_bytes, std::uint64_t{5} << 20);
  EXPECT_EQ(result.settings.idle_evict.count(), 30'000);
  EXPECT_EQ(Read({"--idle-evict-ms", "7"}).settings.idle_evict.count(), 7);
  EXPECT_FALSE(result.settings.worker_name.empty());
}

TEST_F(SettingsTest, FlagsBeforeEnvironmentBeforeFile) {
  std::ofstream(path_) << "max-streams = 7\nmemory = \"256M\"\nlisten = [\"unix:/a\", \"h:1\"]\n";
  const std::vector<const char*> environment = {"KERFD_MAX_STREAMS=8", "KERFD_DRAIN_MS=6"};
  const SettingsResult result = Read({"--config", path_.c_str(), "--drain-ms", "5"}, environment);
  ASSERT_FALSE(result.exit_code.has_value()) << result.output;
  EXPECT_EQ(result.settings.max_streams, 8u);
  EXPECT_EQ(result.settings.memory_bytes, std::uint64_t{256} << 20);
  EXPECT_EQ(result.settings.listen, (std::vector<std::string>{"unix:/a", "h:1"}));
  EXPECT_EQ(result.settings.drain.count(), 5);
  EXPECT_EQ(Read({"--config", path_.c_str(), "--max-streams=9"}, environment).settings.max_streams,
            9u);
  const std::string config = "KERFD_CONFIG=" + path_;
  EXPECT_EQ(Read({}, {config.c_str()}).settings.max_streams, 7u);
  EXPECT_EQ(Read({}, {"KERFD_LISTEN=unix:/c,h:2"}).settings.listen,
            (std::vector<std::string>{"unix:/c", "h:2"}));
  EXPECT_EQ(Read({}, {"KERFD_REDIS=a:1,b:2"}).settings.redis,
            (std::vector<RedisAddress>{{"a", 1}, {"b", 2}}));
}

TEST_F(SettingsTest, TheBackendMayBeNamedForAllPrograms) {
  EXPECT_EQ(Read({}).settings.backend, "auto");
  EXPECT_EQ(Read({}, {"KERF_BACKEND=plain"}).settings.backend, "plain");
  EXPECT_EQ(Read({}, {"KERF_BACKEND="}).settings.backend, "auto");
  EXPECT_EQ(Read({}, {"KERF_BACKEND=plain", "KERFD_BACKEND=scalar"}).settings.backend, "scalar");
  EXPECT_EQ(Read({"--backend", "avx2"}, {"KERF_BACKEND=plain"}).settings.backend, "avx2");
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

TEST_F(SettingsTest, RolesHaveWhatTheyNeed) {
  const Settings front =
      Read({"--role", "front", "--workers", "dns:w:7461", "--workers", "unix:/w"}).settings;
  EXPECT_EQ(front.role, Role::kFront);
  ASSERT_EQ(front.workers.size(), 2u);
  EXPECT_TRUE(front.workers[0].is_group);
  EXPECT_EQ(front.workers[1].text, "unix:/w");
  EXPECT_EQ(front.max_streams, 1024u);
  EXPECT_EQ(front.max_calls, 256u);
  EXPECT_EQ(front.max_worker_streams, 0u);
  EXPECT_EQ(front.worker_check.count(), 1000);
  EXPECT_EQ(front.worker_refresh.count(), 5000);
  EXPECT_EQ(Read({}, {"KERFD_ROLE=front", "KERFD_WORKERS=a:1,b:2"}).settings.workers.size(), 2u);
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

TEST_F(SettingsTest, WhatIsPrintedCanBeReadBack) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {},
           {"--memory", "300M", "--listen", "unix:/b,c", "--listen", "127.0.0.1:0",
            "--sync-commits", "true", "--max-streams", "7", "--data-dir", "/a \"b\" 'c' \\d # e",
            "--worker-name", "[x, y]"},
           {"--hint-memory", "5M", "--hint-sizes", "3", "--hint-disk", "7M", "--hint-key-file",
            "/k"},
           {"--gpu", "require", "--gpu-plugin", "/p", "--gpu-memory", "1G", "--gpu-lost", "drain",
            "--gpu-devices", "0,3"},
           {"--redis", "a:1", "--redis", "[::1]:2", "--redis-replicas", "2", "--redis-user", "u",
            "--redis-password-file", "/p", "--redis-expected-chunks", "5000000000"},
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
    EXPECT_EQ(result.settings.memory_bytes, given.settings.memory_bytes);
    EXPECT_EQ(result.settings.listen, given.settings.listen);
    EXPECT_EQ(result.settings.sync_commits, given.settings.sync_commits);
    EXPECT_EQ(result.settings.max_streams, given.settings.max_streams);
    EXPECT_EQ(result.settings.data_dir, given.settings.data_dir);
    EXPECT_EQ(result.settings.worker_name, given.settings.worker_name);
    EXPECT_EQ(result.settings.redis, given.settings.redis);
    EXPECT_EQ(result.settings.hint_memory_bytes, given.settings.hint_memory_bytes);
    EXPECT_EQ(result.settings.hint_sizes, given.settings.hint_sizes);
    EXPECT_EQ(result.settings.gpu, given.settings.gpu);
    EXPECT_EQ(result.settings.gpu_plugin, given.settings.gpu_plugin);
    EXPECT_EQ(result.settings.gpu_memory_bytes, given.settings.gpu_memory_bytes);
    EXPECT_EQ(result.settings.gpu_devices, given.settings.gpu_devices);
    EXPECT_EQ(result.settings.ends_without_gpu, given.settings.ends_without_gpu);
    EXPECT_EQ(result.settings.role, given.settings.role);
    EXPECT_EQ(result.settings.workers.size(), given.settings.workers.size());
    EXPECT_EQ(result.settings.max_worker_streams, given.settings.max_worker_streams);
    EXPECT_EQ(result.settings.max_calls, given.settings.max_calls);
    EXPECT_EQ(result.settings.worker_check, given.settings.worker_check);
    EXPECT_EQ(result.settings.worker_refresh, given.settings.worker_refresh);
    EXPECT_EQ(result.settings.redis_replicas, given.settings.redis_replicas);
    EXPECT_EQ(result.settings.redis_expected_chunks, given.settings.redis_expected_chunks);
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
  EXPECT_EQ(Read({}, {"KERFD_MAX_STREAMS="}).settings.max_streams, 1'024u);
}

TEST_F(SettingsTest, HelpAndVersion) {
  SettingsResult result = Read({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("Examples:"), std::string::npos);
  EXPECT_NE(result.output.find("KERFD_DATA_DIR"), std::string::npos);
  result = Read({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "kerfd 0.1.0\n");
}

}  // namespace
}  // namespace kerf
