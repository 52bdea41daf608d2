#include "server/settings/settings.h"

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
  EXPECT_EQ(result.settings.role, "all");
  EXPECT_EQ(result.settings.listen, std::vector<std::string>{"127.0.0.1:7461"});
  EXPECT_EQ(result.settings.memory_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(result.settings.limits.max_uncommitted_files, 16'384u);
  EXPECT_EQ(result.settings.drain.count(), 10'000);
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
           {"--role", "front"},
           {"--role", "other"},
           {"--listen", "nowhere"},
           {"--memory", "much"},
           {"--max-streams", "0"},
           {"--drain-ms", "-1"},
           {"--log-level", "loud"},
           {"--config", "/no/such/file"},
           {"stray"},
       }) {
    const SettingsResult result = Read(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments[0];
    EXPECT_NE(result.output.find("kerfd: "), std::string::npos);
  }
  EXPECT_NE(Read({"--role", "front"}).output.find("not built yet"), std::string::npos);
}

TEST_F(SettingsTest, WhatIsPrintedCanBeReadBack) {
  const SettingsResult printed = Read({"--print-config", "--memory", "300M", "--listen", "unix:/b",
                                       "--listen", "127.0.0.1:0", "--sync-commits", "true"});
  ASSERT_EQ(printed.exit_code, 0);
  std::ofstream(path_) << printed.output;
  const SettingsResult result = Read({"--config", path_.c_str()});
  ASSERT_FALSE(result.exit_code.has_value()) << result.output << printed.output;
  EXPECT_EQ(result.settings.memory_bytes, std::uint64_t{300} << 20);
  EXPECT_EQ(result.settings.listen, (std::vector<std::string>{"unix:/b", "127.0.0.1:0"}));
  EXPECT_TRUE(result.settings.sync_commits);
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
