// A kerfd that somebody watches as systemd does, and whose files are read anew when he says so.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "e2e/identities.h"
#include "e2e/world.h"
#include "server/edge/testing/test_upload.h"
#include "server/testing/notify_socket.h"

namespace kerf::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Write(const std::string& name) {
  return Cat("[[identity]]\nname = \"kerf://", name, "\"\n[[identity.grant]]\nrole = \"write\"\n",
             "repositories = [\"home\"]\n");
}

// Of the world whose programs know the socket.
std::string NewName(bool is_abstract) {
  static int count = 0;
  return Cat(is_abstract ? "@" : "/tmp/", "kerf-e2e-notify-", getpid(), "-", ++count);
}

class WatchedTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(All, WatchedTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Abstract" : "Path"; });

TEST_P(WatchedTest, ASystemdHearsOfItsLife) {
  World world;
  const std::string name = NewName(GetParam());
  NotifySocket socket(name);
  world.SetEnvironment("NOTIFY_SOCKET", name);
  world.SetEnvironment("WATCHDOG_USEC", "100000");
  world.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(socket.NextWith("READY=1").has_value());
  EXPECT_EQ(world.Kerf({"ping"}).exit_code, 0);
  EXPECT_TRUE(socket.NextWith("WATCHDOG=1").has_value());
  world.server().Signal(SIGHUP);
  ASSERT_TRUE(socket.NextWith("RELOADING=1").has_value());
  ASSERT_TRUE(socket.NextWith("READY=1").has_value());
  world.server().Signal(SIGTERM);
  EXPECT_TRUE(socket.NextWith("STOPPING=1").has_value());
  EXPECT_EQ(world.server().Wait().exit_code, 0);
  EXPECT_EQ(socket.Next(std::chrono::milliseconds(0)), std::nullopt) << "after its end";
}

// A front is watched as well.
TEST_P(WatchedTest, AFrontTells) {
  World world;
  world.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  const std::string name = NewName(GetParam());
  NotifySocket socket(name);
  world.SetEnvironment("NOTIFY_SOCKET", name);
  const auto front = world.StartKerfd("front", {"--role", "front", "--workers", world.address()});
  ASSERT_NE(front, nullptr);
  ASSERT_TRUE(socket.NextWith("READY=1").has_value());
  front->Signal(SIGHUP);
  ASSERT_TRUE(socket.NextWith("RELOADING=1").has_value());
  ASSERT_TRUE(socket.NextWith("READY=1").has_value());
  front->Signal(SIGTERM);
  EXPECT_TRUE(socket.NextWith("STOPPING=1").has_value());
  EXPECT_EQ(front->Wait().exit_code, 0);
}

class ReloadTest : public ::testing::Test {
 protected:
  ReloadTest() {
    world_.SetEnvironment("NOTIFY_SOCKET", name_);
    identities_.StartServer(Write("anna"));
    EXPECT_TRUE(socket_.NextWith("READY=1").has_value());
  }
  // Returns once it has reloaded; false: it does not say so.
  bool Reload() {
    world_.server().Signal(SIGHUP);
    return socket_.NextWith("RELOADING=1").has_value() && socket_.NextWith("READY=1").has_value();
  }
  // By a connection of its own.
  bool IsLetIn(std::string_view name) const {
    TestUpload upload(identities_.Connect(name));
    upload.SendOpen(OpenFor("home"));
    upload.WritesDone();
    return upload.WaitForEnd().ok();
  }

  World world_;
  const Identities identities_{world_};
  const std::string name_ = NewName(true);
  NotifySocket socket_{name_};
};

// kerfd looks at its files every one or two seconds, and believes what it has seen twice: what
// holds at the end of a reload holds by the reload.
TEST_F(ReloadTest, WhatTheFilesSayIsInForceAtOnce) {
  for (int round = 0; round < 5; ++round) {
    const std::string name = Cat("ben-", round);
    EXPECT_FALSE(IsLetIn(name));
    identities_.WriteAccess(Write("anna") + Write(name));
    identities_.WriteKey("kerfd", {"localhost", "127.0.0.1", Cat("round-", round, ".example")});
    ASSERT_TRUE(Reload());
    EXPECT_TRUE(IsLetIn(name)) << round;
    EXPECT_TRUE(IsLetIn("anna")) << round;
  }
  const std::string log = world_.StopServer();
  EXPECT_THAT(log,
              HasSubstr("SIGHUP: what the files say is in force: TLS, TLS of metrics, --access"));
  EXPECT_THAT(log, HasSubstr("TLS has changed with its files"));
}

// What is no file of identities, or no pair of certificate and key, is said each time, and changes
// nothing; until it is one.
TEST_F(ReloadTest, WhatIsWrongChangesNothing) {
  identities_.WriteAccess("[[identity]]\nrole = \"admin\"\n");
  identities_.Write("kerfd.pem", "no certificate");
  ASSERT_TRUE(Reload());
  ASSERT_TRUE(Reload());
  EXPECT_TRUE(IsLetIn("anna"));
  identities_.WriteAccess(Write("anna") + Write("ben"));
  identities_.WriteKey("kerfd", {"localhost", "127.0.0.1"});
  ASSERT_TRUE(Reload());
  EXPECT_TRUE(IsLetIn("ben"));
  const std::string log = world_.StopServer();
  const std::size_t first = log.find("SIGHUP: files are read again; TLS goes on as it was");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_NE(log.find("SIGHUP: files are read again; TLS goes on as it was", first + 1),
            std::string::npos)
      << log;
  EXPECT_THAT(log, HasSubstr("--access goes on as it was: "));
}

TEST_F(ReloadTest, UnderLoadItEndsNoStream) {
  constexpr int kStreams = 4;
  std::atomic<bool> is_over{false};
  std::atomic<int> file_count{0};
  std::vector<std::thread> streams;
  streams.reserve(kStreams);
  for (int number = 0; number < kStreams; ++number) {
    streams.emplace_back([&, number] {
      std::string content(500'000, '\0');
      Random(static_cast<std::uint64_t>(number))
          .Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
      const v1::Open open = OpenFor("home");
      const std::vector<RecipeChunk> whole = PlainRecipe(content, open);
      TestUpload upload(identities_.Connect("anna"));
      EXPECT_TRUE(upload.SendOpen(open));
      std::size_t sent_count = 0;
      while (!is_over.load() || sent_count == 0) {
        ASSERT_TRUE(upload.SendFile(content, 20'000));
        ASSERT_TRUE(upload.WaitForChunks(++sent_count, content.size()));
        ASSERT_TRUE(upload.CommitAnswered());
        ASSERT_TRUE(upload.WaitForDone(sent_count));
        EXPECT_EQ(upload.RecipeOf(sent_count), whole);
        file_count.fetch_add(1);
      }
      upload.WritesDone();
      const grpc::Status end = upload.WaitForEnd();
      EXPECT_TRUE(end.ok()) << end.error_message();
    });
  }
  constexpr int kReloads = 40;
  for (int round = 0; round < kReloads; ++round) {
    identities_.WriteAccess(Write("anna") + Write(Cat("ben-", round)));
    if (round % 4 == 0) identities_.WriteKey("kerfd", {"localhost", "127.0.0.1"});
    EXPECT_TRUE(Reload()) << round;
  }
  // Many at once, of which nobody counts how many reloads they become.
  for (int count = 0; count < 1000; ++count) world_.server().Signal(SIGHUP);
  is_over.store(true);
  for (std::thread& stream : streams) stream.join();
  EXPECT_GE(file_count.load(), kStreams);
  EXPECT_THAT(world_.StopServer(), Not(HasSubstr("goes on as it was")));
}

}  // namespace
}  // namespace kerf::e2e
