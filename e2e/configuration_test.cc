// Where kerf's settings come from: flags, the environment, its file.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "e2e/world.h"
#include "gmock/gmock.h"

namespace kerf::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kOk = 0;
constexpr int kUsage = 2;

class Configuration : public ::testing::Test {
 protected:
  Configuration() {
    world_.UnsetEnvironment("KERF_STORE");
    world_.UnsetEnvironment("KERF_SERVER");
  }

  void Config(const std::string& text) {
    std::filesystem::create_directories(world_ / ".config/kerf");
    WriteText(world_ / ".config/kerf/config.toml", text);
  }

  // Which store `kerf snapshots` goes for: none of those here exist, and the message names it.
  std::string StoreOf(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), "snapshots");
    const std::string message = world_.KerfJson(flags).Only("error")["message"];
    for (const char* store : {"from-file", "from-environment", "from-flag"}) {
      if (message.find(store) != std::string::npos) return store;
    }
    return message;
  }

  World world_;
};

TEST_F(Configuration, AFlagGoesBeforeTheEnvironmentThatBeforeTheFile) {
  Config("# where it all is\nstore = \"from-file\"\n");
  EXPECT_EQ(StoreOf(), "from-file");
  world_.SetEnvironment("KERF_STORE", "from-environment");
  EXPECT_EQ(StoreOf(), "from-environment");
  EXPECT_EQ(StoreOf({"--store", "from-flag"}), "from-flag");
}

TEST_F(Configuration, TheFileMayLieElsewhere) {
  WriteText(world_ / "other.toml", "store = 'from-file'\n");
  EXPECT_EQ(StoreOf({"--config", world_ / "other.toml"}), "from-file");
  world_.SetEnvironment("KERF_CONFIG", world_ / "other.toml");
  EXPECT_EQ(StoreOf(), "from-file");
  world_.UnsetEnvironment("KERF_CONFIG");
  std::filesystem::create_directories(world_ / "xdg/kerf");
  WriteText(world_ / "xdg/kerf/config.toml", "store = \"from-file\" # here\n");
  world_.SetEnvironment("XDG_CONFIG_HOME", world_ / "xdg");
  EXPECT_EQ(StoreOf(), "from-file");
  EXPECT_EQ(world_.KerfJson({"snapshots", "--config", "none.toml"}).exit_code, kUsage);
}

TEST_F(Configuration, AFileThatCannotBeOneIsRefused) {
  std::filesystem::create_directory(world_ / "folder");
  WriteText(world_ / "huge.toml", std::string((1 << 20) + 1, '\n'));
  WriteText(world_ / "unreadable.toml", "");
  std::filesystem::permissions(world_ / "unreadable.toml", std::filesystem::perms::none);
  world_.DropPrivileges();
  const std::vector<std::pair<std::string, std::string>> files = {
      {"none.toml", "none.toml: No such file"},
      {"folder", "folder is a folder"},
      {"unreadable.toml", "unreadable.toml: Permission denied"},
      {"huge.toml", "huge.toml, it has more than 1048576 bytes"},
      {"/dev/zero", "/dev/zero, it has more than"}};
  for (const auto& [file, message] : files) {
    for (const bool by_flag : {true, false}) {
      std::vector<std::string> arguments = {"snapshots", "--store", "from-flag"};
      if (by_flag) arguments.insert(arguments.end(), {"--config", file});
      if (!by_flag) world_.SetEnvironment("KERF_CONFIG", file);
      const JsonRun run = world_.KerfJson(arguments);
      EXPECT_EQ(run.exit_code, kUsage) << file;
      EXPECT_THAT(std::string(run.Only("error")["message"]), HasSubstr(message)) << by_flag;
      world_.UnsetEnvironment("KERF_CONFIG");
    }
  }
}

TEST_F(Configuration, AnEmptyNameIsAMistake) {
  for (const bool with_variable : {false, true}) {
    if (with_variable) world_.SetEnvironment("KERF_CONFIG", "none.toml");
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"--config", "", "snapshots", "--store", "x"},
                                               {"snapshots", "--store", "x", "--config", ""},
                                               {"backup", ".", "--config", ""}}) {
      const JsonRun run = world_.KerfJson(arguments);
      EXPECT_EQ(run.exit_code, kUsage);
      EXPECT_THAT(std::string(run.Only("error")["message"]),
                  AllOf(HasSubstr("--config"), HasSubstr("empty")));
    }
  }
  world_.UnsetEnvironment("KERF_CONFIG");
  world_.SetEnvironment("KERF_STORE", "from-environment");
  EXPECT_EQ(StoreOf(), "from-environment") << "no file is no mistake";
}

TEST_F(Configuration, TheDefaultFileCountsIfItIsThere) {
  Config("store = \"from-file\"\n");
  std::filesystem::permissions(world_ / ".config/kerf/config.toml", std::filesystem::perms::none);
  world_.DropPrivileges();
  const JsonRun run = world_.KerfJson({"snapshots", "--store", "x"});
  EXPECT_EQ(run.exit_code, kUsage) << "its settings must not silently not count";
  EXPECT_THAT(std::string(run.Only("error")["message"]),
              HasSubstr(".config/kerf/config.toml: Permission denied"));
  EXPECT_EQ(world_.Kerf({"--help"}).exit_code, kOk);
  WriteText(world_ / "empty.toml", "");
  EXPECT_EQ(StoreOf({"--store", "from-flag", "--config", "empty.toml"}), "from-flag");
}

TEST_F(Configuration, UnknownKeysAreErrors) {
  for (const char* text : {"stoer = \"x\"\n", "[snapshots]\nnone = 1\n", "[none]\nstore = \"x\"\n",
                           "store = \n", "store \"x\"\n", "store = \"x\n"}) {
    Config(text);
    const JsonRun run = world_.KerfJson({"snapshots", "--store", "x"});
    EXPECT_EQ(run.exit_code, kUsage) << text;
    EXPECT_THAT(std::string(run.Only("error")["message"]), HasSubstr("config.toml")) << text;
  }
}

TEST_F(Configuration, SettingsOfAVerbStandInItsTable) {
  std::filesystem::create_directory(world_ / "tree");
  for (const char* name : {"a", "b", "odd"}) WriteText(world_ / Cat("tree/", name), name);
  world_.StartServer();
  Config(Cat("store = \"", world_.store(), "\"\nserver = \"", world_.address(),
             "\"\n\n[backup]\nexclude = [\"a\", \"c#d\"]\n"));
  EXPECT_EQ(world_.Backup({"tree"})["files"], 2);
  EXPECT_EQ(world_.KerfJson({"snapshots"}).Of("snapshot").size(), 1u);
}

}  // namespace
}  // namespace kerf::e2e
