// A kerfd whose log nobody takes, because its pipe is full or its disk hangs, serves all the same,
// though strangers are what it has to tell of; and it ends when it is told to.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "client/fs/testing/temporary_directory.h"
#include "e2e/honest.h"
#include "e2e/program.h"

namespace kerf::e2e {
namespace {

// A guard against a hang.
constexpr std::chrono::seconds kEndPatience{30};
constexpr int kStrangers = 50;

TEST(UnreadLog, KeepsNobodyWaiting) {
  const agent::testing::TemporaryDirectory folder;
  const std::string prefix = folder.path() + "/kerfd";
  const std::string log = prefix + ".err";
  ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);
  const UniqueFd pipe(open(log.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(pipe.valid());
  Program kerfd({BuiltProgram("server/kerfd"), "--listen", "127.0.0.1:0", "--data-dir",
                 folder.path() + "/data", "--ready-file", folder.path() + "/ready"},
                prefix, {});
  const auto deadline = std::chrono::steady_clock::now() + kEndPatience;
  while (!std::filesystem::exists(folder.path() + "/ready")) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::string address = ReadText(folder.path() + "/ready");
  address = address.substr(0, address.find('\n'));
  while (write(pipe.get(), "x", 1) == 1) {
  }
  ASSERT_EQ(errno, EAGAIN);

  // Each is turned away with a line.
  for (int stranger = 0; stranger < kStrangers; ++stranger) {
    const UniqueFd socket = ConnectAsStranger(address);
    ASSERT_TRUE(socket.valid());
    const std::string request = "GET / HTTP/1.0\r\n\r\n";
    ASSERT_EQ(write(socket.get(), request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
    // Until it is closed.
    char bytes[256];
    while (read(socket.get(), bytes, sizeof bytes) > 0) {
    }
  }
  Honest(address).ExpectGoodService(kPatience);

  kerfd.Signal(SIGTERM);
  const auto ends_by = std::chrono::steady_clock::now() + kEndPatience;
  while (!kerfd.HasEnded() && std::chrono::steady_clock::now() < ends_by) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(kerfd.HasEnded());
}

}  // namespace
}  // namespace kerf::e2e
