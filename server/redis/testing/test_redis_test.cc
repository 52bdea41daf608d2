// tools/redis-cluster `up` that ends half-way ends the servers that it has started: whoever called
// it has no folder any more to find them by.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "server/redis/address.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Its exit status. The tests' own folders are all that is in `command`.
int Shell(const std::string& command) {
  const int status = std::system(command.c_str());  // NOLINT(bugprone-command-processor)
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The servers are up by the time that redis-cli is asked to join them.
class HalfWayTest : public ::testing::Test {
 protected:
  HalfWayTest() {
    folder_ = Cat(::testing::TempDir(), "/up-XXXXXX");
    KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
    std::filesystem::create_directory(folder_ + "/bin");
  }
  ~HalfWayTest() override { std::filesystem::remove_all(folder_); }

  // In the place of redis-cli, when it is to join the servers.
  void InsteadOfJoining(const std::string& command) {
    const std::string path = folder_ + "/bin/redis-cli";
    std::ofstream(path) << "#!/bin/sh\nif [ \"$1\" != --cluster ]; then PATH=${PATH#*:}; exec "
                           "redis-cli \"$@\"; fi\necho \"$@\" > "
                        << folder_ << "/part && mv " << folder_ << "/part " << Asked() << "\n"
                        << command << "\n";
    chmod(path.c_str(), 0700);
  }
  std::string Asked() const { return folder_ + "/asked"; }

  // Returns when it has ended; its exit status.
  int Up() const {
    return Shell(Cat("PATH=", folder_, "/bin:\"$PATH\"; echo $$ > ", folder_,
                     "/pid; exec tools/redis-cluster --dir ", folder_,
                     "/nodes up --node-timeout-ms 1000 > ", folder_, "/out 2>&1"));
  }

  void ExpectNoServerLeft() const {
    std::ifstream file(Asked());
    std::vector<RedisAddress> asked;
    for (std::string word; file >> word;) {
      if (word.starts_with("127.")) asked.push_back(*ParseRedisAddress(word));
    }
    ASSERT_EQ(asked.size(), 6u);
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/nodes"));
    for (const RedisAddress& address : asked) {
      const std::string ping = Cat("redis-cli -h ", address.host, " -p ", address.port, " PING > ",
                                   folder_, "/ping 2>&1");
      EXPECT_NE(Shell(ping), 0) << FormatRedisAddress(address);
    }
  }

  std::string folder_;
};

TEST_F(HalfWayTest, ServersThatCannotBeJoinedAreEnded) {
  InsteadOfJoining("echo not today; exit 1");
  EXPECT_EQ(Up(), 1);
  std::ifstream file(folder_ + "/out");
  std::stringstream out;
  out << file.rdbuf();
  EXPECT_NE(out.str().find("not today"), std::string::npos) << out.str();
  ExpectNoServerLeft();
}

TEST_F(HalfWayTest, WhoIsToldToStopEndsItsServers) {
  InsteadOfJoining("exec sleep 60");
  int status = 0;
  std::thread up([&] { status = Up(); });
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(Asked()) && steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  pid_t pid = 0;
  std::ifstream(folder_ + "/pid") >> pid;
  EXPECT_GT(pid, 1);
  if (pid > 1) kill(pid, SIGTERM);
  up.join();
  EXPECT_EQ(status, 128 + SIGTERM);
  ExpectNoServerLeft();
}

}  // namespace
}  // namespace kerf
