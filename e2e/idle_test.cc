// A full server: whose stream has to make room, and what that client is told.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "client/cpp/channel.h"
#include "client/cpp/upload_stream.h"
#include "e2e/file_lease.h"
#include "e2e/world.h"
#include "gmock/gmock.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {
namespace {

using ::testing::HasSubstr;

constexpr int kUnavailable = 5;
// A guard against a hang.
constexpr std::chrono::seconds kPatience{60};

class IdleTest : public testing::Test {
 protected:
  void Start(int idle_evict_ms) {
    world_.StartServer(
        {"--max-streams", "2", "--idle-evict-ms", Cat(idle_evict_ms), "--listen", "127.0.0.1:0"});
  }

  // Stays in mid-file, where it is not idle. Null: the server is full.
  std::unique_ptr<TestUpload> OpenBusy() {
    auto upload = std::make_unique<TestUpload>(ConnectTo(world_.last_address()));
    upload->SendOpen(OpenFor("busy"));
    upload->SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); });
    const auto opened = [](const auto& answers) { return !answers.empty(); };
    return upload->WaitFor(opened) ? std::move(upload) : nullptr;
  }

  std::unique_ptr<TestUpload> OpenBusySoon() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      if (auto upload = OpenBusy(); upload != nullptr) return upload;
    }
    ADD_FAILURE() << "nobody had to make room";
    return nullptr;
  }

  World world_;
};

class Handler final : public client::AnswerHandler {
 public:
  void OnAnswer(const v1::UploadAnswer& answer) override {
    if (!answer.has_opened()) return;
    is_opened_ = true;
    is_opened_.notify_all();
  }
  void OnEnd(const absl::Status& /*status*/) override {
    is_opened_ = true;
    is_opened_.notify_all();
  }
  void WaitOpened() const { is_opened_.wait(false); }

 private:
  std::atomic<bool> is_opened_{false};
};

// The agent's metadata may wait for hours.
TEST_F(IdleTest, AClientThatIsThereKeepsItsPlace) {
  constexpr int kIdleEvictMs = 1'500;
  Start(kIdleEvictMs);
  const auto channel = client::OpenChannel({world_.last_address()});
  ASSERT_TRUE(channel.ok());
  client::UploadStream::Options options;
  options.open = OpenFor("home");
  options.keep_place = std::chrono::milliseconds(kIdleEvictMs / 30);
  Handler handler;
  client::UploadStream kept(*channel, options, handler);
  handler.WaitOpened();
  // Younger, and so not the one that would be ended, if the other one did not speak.
  TestUpload silent(ConnectTo(world_.last_address()));
  ASSERT_TRUE(silent.SendOpen(OpenFor("home")));
  ASSERT_TRUE(silent.WaitFor([](const auto& answers) { return !answers.empty(); }));
  const auto newcomer = OpenBusySoon();
  ASSERT_NE(newcomer, nullptr);
  const grpc::Status status = silent.WaitForEnd();
  EXPECT_EQ(ReasonOf(status), "IDLE_EVICTED") << status.error_message();
  kept.FinishWrites();
  const absl::Status end = kept.Wait();
  EXPECT_TRUE(end.ok()) << end;
}

// `a program | kerf backup`: however long that program says nothing, and though the server bears it
// for less than that, and nothing is tried for as long.
TEST_F(IdleTest, ASourceThatIsSilentForLongEndsNoBackup) {
  world_.StartServer({"--idle-timeout-ms", "300"});
  const std::string content = Cat(std::string(3'000'000, 'a'), "b");
  WriteText(world_ / "first", content);
  WriteText(world_ / "last", "the end");
  const Completed end =
      world_.Run({"/bin/sh", "-c",
                  Cat("(cat first; sleep 3; cat first; sleep 3; cat last) | ",
                      std::filesystem::canonical(BuiltProgram("client/agent/kerf")).string(),
                      " backup --stdin-filename dump --store ", world_.store(), " --server ",
                      world_.address(), " --retry-for 1s")});
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_THAT(end.err, testing::Not(HasSubstr("trying again"))) << "nothing was lost";
  ASSERT_EQ(world_.Kerf({"restore", "latest", "--target", "out"}).exit_code, 0);
  EXPECT_TRUE(ReadText(world_ / "out/dump") == Cat(content, content, "the end"));
  EXPECT_THAT(world_.StopServer(), HasSubstr("IDLE_TIMEOUT"));
}

TEST_F(IdleTest, ABackupThatHasToMakeRoomSaysSo) {
  std::filesystem::create_directory(world_ / "tree");
  Completed end;
  // The lease says that the agent has called for its streams, not that the server has them: they
  // may come too late, and then it is told that the server is full.
  for (int tries = 0; tries < 5; ++tries) {
    Start(500);
    WriteText(world_ / "tree/a", Cat("content ", tries));
    FileLease lease(world_ / "tree/a");
    if (!lease.held()) GTEST_SKIP() << "no leases here";
    const auto kerf = world_.Start({"backup", "tree", "--streams", "1", "--retry-for", "0s"});
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!lease.is_wanted() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    // Both of the agent's streams are silent until the lease is given back.
    const auto first = OpenBusySoon();
    const auto second = OpenBusySoon();
    lease.GiveBack();
    end = kerf->Wait();
    if (end.err.find("at most 2 streams") == std::string::npos) break;
  }
  EXPECT_EQ(end.exit_code, kUnavailable) << end.err;
  EXPECT_EQ(end.out, "");
  EXPECT_THAT(end.err, HasSubstr("had been idle for "));
  EXPECT_THAT(world_.KerfJson({"snapshots"}).Of("snapshot"), testing::IsEmpty());
  // Who has the agent's message finds the stream in the server's log.
  constexpr std::string_view kBefore = "(request id ";
  const std::size_t id = end.err.find(kBefore);
  ASSERT_NE(id, std::string::npos) << end.err;
  const std::size_t begin = id + kBefore.size();
  EXPECT_THAT(world_.StopServer(),
              HasSubstr(Cat("request_id=", end.err.substr(begin, end.err.find(')', id) - begin))));
}

}  // namespace
}  // namespace kerf::e2e
