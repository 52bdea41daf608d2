// What leaves a kerfd running and of no use: it says so to whoever asks, and is of use again, or
// asks to be started anew. Some of it needs root, for disks and mounts in a namespace of its own.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>

#include "base/check.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "e2e/raw_http2.h"
#include "e2e/watched.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::StartsWith;

UniqueFd ConnectTo(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  KERF_CHECK(connect(connection.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  return connection;
}

class ReadyTest : public WatchedTest {
 protected:
  int FileCount() {
    const std::filesystem::directory_iterator files(Cat("/proc/", world_.server().pid(), "/fd"));
    return static_cast<int>(std::distance(files, std::filesystem::directory_iterator()));
  }
  // "SERVING", "NOT_SERVING", or why there is no answer.
  std::string Health() {
    const auto channel =
        grpc::CreateChannel(world_.last_address(), grpc::InsecureChannelCredentials());
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    const grpc::Slice nothing;
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> ended;
    stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                   [&ended](const grpc::Status& status) { ended.set_value(status); });
    const grpc::Status status = ended.get_future().get();
    grpc::Slice bytes;
    if (!status.ok() || !response.DumpToSingleSlice(&bytes).ok() || bytes.size() != 2) {
      return Cat("no answer: ", status.error_message());
    }
    // Field 1, of which 1 is SERVING and 2 is NOT_SERVING.
    return bytes.begin()[1] == 1 ? "SERVING" : "NOT_SERVING";
  }
  bool WaitUntilHealthIs(const std::string& wanted) {
    const auto deadline = steady_clock::now() + kPatience;
    while (Health() != wanted && steady_clock::now() < deadline) {
    }
    return Health() == wanted;
  }
  // Few more than it has now.
  rlim_t LimitDescriptors() {
    rlimit before{};
    EXPECT_EQ(prlimit(world_.server().pid(), RLIMIT_NOFILE, nullptr, &before), 0);
    const auto limit = static_cast<rlim_t>(FileCount()) + 100;
    const rlimit few{limit, before.rlim_max};
    EXPECT_EQ(prlimit(world_.server().pid(), RLIMIT_NOFILE, &few, nullptr), 0);
    return limit;
  }
  // So many connections for a while that kerfd has no file descriptors left.
  void TakeAllDescriptors(rlim_t limit, const std::function<UniqueFd()>& connect) {
    std::vector<UniqueFd> idle(300);
    for (UniqueFd& fd : idle) fd = connect();
    const auto deadline = steady_clock::now() + kPatience;
    // One may be left that is too few for a connection.
    while (static_cast<rlim_t>(FileCount()) + 1 < limit && steady_clock::now() < deadline) {
    }
    // It cannot say anything, or that.
    while (Ask("/readyz", milliseconds(1'000)).code == 200 && steady_clock::now() < deadline) {
    }
    EXPECT_LT(steady_clock::now(), deadline);
  }
  void ExpectReadyAgain(const std::function<UniqueFd()>& connect) {
    ASSERT_TRUE(WaitUntilReadinessIs("ready"));
    const rlim_t limit = LimitDescriptors();
    for (int times = 0; times < 3; ++times) {
      TakeAllDescriptors(limit, connect);
      EXPECT_TRUE(WaitUntilReadinessIs("ready"));
      EXPECT_EQ(Ask("/healthz").code, 200);
    }
  }
  std::size_t DamagedCount() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(world_ / "server/data")) {
      count += entry.path().filename().string().starts_with("index.damaged-") ? 1 : 0;
    }
    return count;
  }
};

TEST_F(ReadyTest, WithoutFileDescriptorsItIsNotReadyAtAUnixSocketUntilThereAreSome) {
  if (!kCanLackFiles) GTEST_SKIP() << "a sanitizer needs descriptors itself, to look at memory";
  Start({"--self-check-ms", "100"});
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 3'000'000, 1);
  world_.Backup({"file"});
  ExpectReadyAgain([this] { return ConnectToSocketAt(world_ / "server/kerfd.sock"); });
  world_.StopServer();
  Start();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(DamagedCount(), 0u);
  EXPECT_TRUE(WaitUntilReadinessIs("ready"));
  world_.ExpectNothingNew(world_.Backup({"file", "--force"}));
}

TEST_F(ReadyTest, WithoutFileDescriptorsItIsNotReadyOverTcpUntilThereAreSome) {
  if (!kCanLackFiles) GTEST_SKIP() << "a sanitizer needs descriptors itself, to look at memory";
  Start({"--listen", "127.0.0.1:0", "--self-check-ms", "100"});
  ASSERT_FALSE(HasFatalFailure());
  ExpectReadyAgain([this] { return ConnectTo(world_.last_address()); });
  WriteRandom("file", 3'000'000, 1);
  world_.SetEnvironment("KERF_SERVER", world_.last_address());
  world_.Backup({"file"});
}

// The folder of the index on a disk that goes wrong where it is asked to (e2e/fault_fs), in a mount
// namespace of this process and those that it starts.
class FaultyDiskTest : public ReadyTest {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(unshare(CLONE_NEWNS), 0) << std::strerror(errno) << ": this test needs root";
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0)
        << std::strerror(errno) << ": this test needs root";
  }

  void SetUp() override {
    for (const char* name : {"server/data", "backing", "unsynced"}) {
      std::filesystem::create_directory(world_ / name);
    }
    disk_ = world_.StartOther({BuiltProgram("e2e/fault_fs/fault_fs"), world_ / "backing",
                               world_ / "server/data", "control", world_ / "unsynced"});
    const auto deadline = steady_clock::now() + kPatience;
    while (!IsMounted()) {
      ASSERT_FALSE(disk_->HasEnded()) << disk_->Wait().err << ": this test needs root and FUSE";
      ASSERT_LT(steady_clock::now(), deadline);
    }
    control_ = ConnectToSocketAt(world_ / "control");
  }
  void TearDown() override {
    umount2((world_ / "server/data").c_str(), MNT_DETACH);
    if (disk_ != nullptr) disk_->Kill();
  }

  // That what changes anything on it fails from now on, or no longer.
  void FailChanges(const std::string& error) {
    Say(Cat("arm write,create,mkdir,rename,unlink,truncate,fallocate,fsync 1 0 ", error));
  }
  void FailNothing() { Say("clear"); }

 private:
  bool IsMounted() {
    return std::filesystem::exists(world_ / "control") &&
           ReadText("/proc/self/mountinfo").find(world_ / "server/data") != std::string::npos;
  }
  void Say(const std::string& line) {
    const std::string text = line + "\n";
    ASSERT_EQ(write(control_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    std::string answer;
    for (char letter = 0; letter != '\n'; answer.push_back(letter)) {
      ASSERT_EQ(read(control_.get(), &letter, 1), 1);
    }
    ASSERT_THAT(answer, StartsWith("ok"));
  }

  std::unique_ptr<Program> disk_;
  UniqueFd control_;
};

TEST_F(FaultyDiskTest, ADiskThatTurnsReadOnlyIsToldOfAndUsedAgain) {
  Start({"--listen", "127.0.0.1:0"});
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 3'000'000, 2);
  world_.Backup({"file"});
  EXPECT_TRUE(WaitUntilReadinessIs("ready"));
  EXPECT_EQ(Health(), "SERVING");
  FailChanges("EROFS");
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("more", 1'000'000, 3);
  // What is stored is whole; what it waits for the index comes out of --retry-for.
  const nlohmann::json summary = world_.Backup({"more", "--retry-for", "2s"}, 3);
  EXPECT_NE(summary["index_warning"], "") << summary;
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
  EXPECT_TRUE(WaitUntilReadinessIs("not ready: the index takes no commits: "));
  EXPECT_TRUE(WaitUntilHealthIs("NOT_SERVING"));
  EXPECT_THAT(Ask("/metrics").body, HasSubstr("\nkerf_ready 0\n"));
  // A new start would not help.
  EXPECT_EQ(Ask("/healthz").code, 200);
  EXPECT_FALSE(world_.server().HasEnded());
  FailNothing();
  EXPECT_TRUE(WaitUntilReadinessIs("ready"));
  EXPECT_TRUE(WaitUntilHealthIs("SERVING"));
  EXPECT_EQ(world_.Backup({"file", "more", "--force"})["index_warning"], "");
  world_.ExpectNothingNew(world_.Backup({"file", "more", "--force"}));
  EXPECT_EQ(DamagedCount(), 0u);
  world_.StopServer();
}

}  // namespace
}  // namespace kerf::e2e
