#include "client/own_kerfd/kerfd_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KerfdProcessTest : public ::testing::Test {
 protected:
  KerfdProcessTest() {
    start_.lock = lock_.get();
    start_.folder = open_folder_.get();
    start_.log = log_.get();
  }

  // What a shell says that runs `script` in kerfd's place.
  std::string Run(const std::string& script, const std::string& end = "exit code 0") {
    start_.program = "/bin/sh";
    start_.arguments = {"-c", script};
    const auto process = StartKerfd(start_);
    EXPECT_TRUE(process.ok()) << process.status();
    if (!process.ok()) return "";
    EXPECT_EQ(AwaitEnd(*process), end);
    std::ifstream file(folder_ / "log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string AwaitEnd(pid_t process) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      if (const auto how = EndOf(process)) return *how;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return "no end";
  }
  UniqueFd Open(const std::string& name, int flags) const {
    return UniqueFd(open((folder_ / name).c_str(), flags | O_CLOEXEC, 0600));
  }

  testing::TemporaryDirectory folder_;
  const UniqueFd lock_ = Open("lock", O_RDWR | O_CREAT);
  const UniqueFd log_ = Open("log", O_WRONLY | O_CREAT | O_APPEND);
  const UniqueFd open_folder_ = Open(".", O_RDONLY | O_DIRECTORY);
  KerfdStart start_;
};

TEST_F(KerfdProcessTest, HasTheFilesThatItIsGivenAndNoOthers) {
  // Not closed by exec, as what a shell hands on.
  const UniqueFd foreign(open("/dev/null", O_RDONLY));
  ASSERT_GE(fcntl(foreign.get(), F_DUPFD, 20), 0);
  // A program that opens nothing for itself, as a shell does; what is not open it names elsewise.
  const std::string said =
      Run("QUOTING_STYLE=literal exec stat -c %N $(seq -f /proc/self/fd/%g 0 40) /proc/self/cwd",
          "exit code 1");
  const auto is_open = [](const std::string& fd, const std::string& path) {
    return HasSubstr(Cat("/proc/self/fd/", fd, " -> ", path, "\n"));
  };
  EXPECT_THAT(said, AllOf(is_open("0", "/dev/null"), is_open("1", folder_ / "log"),
                          is_open("2", folder_ / "log"), is_open("3", folder_ / "lock"),
                          is_open("4", folder_.path())));
  EXPECT_THAT(said, HasSubstr("/proc/self/cwd -> /\n"));
  std::size_t count = 0;
  for (std::size_t at = 0; (at = said.find("fd/", at)) != std::string::npos; ++at) {
    count += said.compare(said.find_first_of(" '\n:", at), 4, " -> ") == 0 ? 1 : 0;
  }
  EXPECT_EQ(count, 5u) << said;
}

TEST_F(KerfdProcessTest, IsInASessionOfItsOwn) {
  EXPECT_EQ(Run("cut -d' ' -f6 /proc/$$/stat | grep -qx $$ && echo own"), "own\n");
}

TEST_F(KerfdProcessTest, InheritsTheLock) {
  ASSERT_EQ(flock(lock_.get(), LOCK_EX | LOCK_NB), 0);
  const UniqueFd other = Open("lock", O_RDWR);
  start_.program = "/bin/sleep";
  start_.arguments = {"1000"};
  const auto process = StartKerfd(start_);
  ASSERT_TRUE(process.ok()) << process.status();
  // The parent's goes.
  ASSERT_EQ(dup2(open_folder_.get(), lock_.get()), lock_.get());
  EXPECT_NE(flock(other.get(), LOCK_EX | LOCK_NB), 0) << "the process has it";
  EXPECT_EQ(EndOf(*process), std::nullopt);
  kill(*process, SIGKILL);
  EXPECT_EQ(AwaitEnd(*process), "signal 9");
  EXPECT_EQ(flock(other.get(), LOCK_EX | LOCK_NB), 0) << "it goes with the process";
}

TEST_F(KerfdProcessTest, SaysHowItEnded) { Run("exit 7", "exit code 7"); }

TEST_F(KerfdProcessTest, ItsEndIsSeenWhereNobodyIsToldHow) {
  // As whoever starts kerf may leave it to it.
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  Run("exit 7", "an end of which the system does not tell more");
  std::signal(SIGCHLD, before);
}

TEST_F(KerfdProcessTest, WhatIsNoProgramIsSaid) {
  start_.program = folder_ / "none";
  const auto process = StartKerfd(start_);
  ASSERT_FALSE(process.ok());
  EXPECT_TRUE(absl::IsUnavailable(process.status()));
  EXPECT_THAT(std::string(MessageOf(process.status())), HasSubstr(folder_ / "none"));
}

TEST_F(KerfdProcessTest, SettingsOfTheEnvironmentStayOut) {
  const char* const environment[] = {"KERFD_LISTEN=0.0.0.0:1",
                                     "KERFD_METRICS_LISTEN=:2",
                                     "PATH=/bin",
                                     "NOTIFY_SOCKET=/run/x",
                                     "WATCHDOG_USEC=1",
                                     "LISTEN_FDS=1",
                                     "KERF_BACKEND=scalar",
                                     nullptr};
  EXPECT_THAT(EnvironmentOfKerfd(environment), ElementsAre("PATH=/bin", "KERF_BACKEND=scalar"));
}

}  // namespace
}  // namespace kerf::agent
