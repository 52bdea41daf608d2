// A kerfd that is told to end ends, whatever who is connected does not do.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "e2e/raw_http2.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

// Far more than its grace (200 ms), and far less than for ever: the machine may be busy.
constexpr std::chrono::seconds kSoon{15};

class StopTest : public testing::Test {
 protected:
  void ExpectEnd(Program& kerfd) {
    const auto begin = std::chrono::steady_clock::now();
    kerfd.Signal(SIGTERM);
    const Completed end = kerfd.Wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon) << end.err;
  }

  // 64 MiB that no chunk of is known.
  void WriteTree() const {
    std::filesystem::create_directory(world_ / "tree");
    std::vector<std::uint8_t> bytes(64 << 20);
    Random(1).Fill(bytes);
    WriteText(world_ / "tree/file", std::string(bytes.begin(), bytes.end()));
  }

  // Waits until it has something of what it asks for, and reads no more.
  void AskAndNotRead(const std::string& address) {
    const Http2Headers headers = {{":method", "POST"},
                                  {":scheme", "http"},
                                  {":path", "/kerf.v1.ChunkingService/GetCapabilities"},
                                  {":authority", "localhost"},
                                  {"te", "trailers"},
                                  {"content-type", "application/grpc"}};
    RawConnection connection(address);
    connection.Send(std::string(http2::kPreface).append(http2::Frame(http2::kSettings, 0, 0, "")));
    for (std::uint32_t call = 0; call < kCalls; ++call) {
      connection.Send(http2::HeadersFrame(http2::kEndStream, 2 * call + 1, headers));
    }
    connection.AwaitFrame(http2::kHeaders);
    connections_.push_back(std::move(connection));
  }

  // Whose answers are more than a unix socket holds.
  static constexpr std::uint32_t kCalls = 1'000;
  // Whether a write is under way when it is told is decided by chance.
  static constexpr int kConnections = 6;

  World world_;
  std::vector<RawConnection> connections_;
};

TEST_F(StopTest, ThoughClientsOfItsUnixSocketDoNotRead) {
  const auto worker = world_.StartKerfd("w", {"--data-dir", world_ / "server/data"});
  const auto front =
      world_.StartKerfd("f", {"--role", "front", "--workers", World::AddressOf("w")});
  ASSERT_NE(worker, nullptr);
  ASSERT_NE(front, nullptr);
  for (const std::string name : {"f", "w"}) {
    for (int count = 0; count < kConnections; ++count) {
      AskAndNotRead("unix:" + world_ / ("server/" + name + ".sock"));
    }
  }
  ExpectEnd(*front);
  ExpectEnd(*worker);
}

// Ctrl-Z.
TEST_F(StopTest, ThoughAnAgentIsStopped) {
  WriteTree();
  const auto worker =
      world_.StartKerfd("w", {"--data-dir", world_ / "server/data", "--drain-ms", "100"});
  ASSERT_NE(worker, nullptr);
  ASSERT_EQ(world_.Kerf({"init"}).exit_code, 0);
  const auto agent = world_.Start({"backup", "--server", World::AddressOf("w"), "tree"});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  agent->Signal(SIGSTOP);
  ExpectEnd(*worker);
  agent->Signal(SIGKILL);
  agent->Signal(SIGCONT);
}

TEST_F(StopTest, ThoughTheWorkerOfAFrontIsStopped) {
  WriteTree();
  const auto worker = world_.StartKerfd("w", {"--data-dir", world_ / "server/data"});
  const auto front = world_.StartKerfd(
      "f", {"--role", "front", "--workers", World::AddressOf("w"), "--drain-ms", "100"});
  ASSERT_NE(worker, nullptr);
  ASSERT_NE(front, nullptr);
  ASSERT_EQ(world_.Kerf({"init"}).exit_code, 0);
  const auto agent = world_.Start({"backup", "--server", World::AddressOf("f"), "tree"});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  worker->Signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ExpectEnd(*front);
  agent->Kill();
  worker->Signal(SIGCONT);
}

}  // namespace
}  // namespace kerf::e2e
