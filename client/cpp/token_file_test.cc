// To whom a token is shown.
#include "client/cpp/token_file.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/strings.h"
#include "client/cpp/channel.h"
#include "client/cpp/retry.h"
#include "client/cpp/tls_check.h"
#include "kerf/v1/chunking.grpc.pb.h"

namespace kerf::client {
namespace {

using testing::HasSubstr;

// Not the number of those who have none in a user namespace.
constexpr uid_t kMallory = 23'456;

// Counts the calls that have come, and tokens that were shown with them.
class Listener final : public v1::ChunkingService::Service {
 public:
  explicit Listener(const std::string& path) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    KERF_CHECK(server_ != nullptr);
  }
  ~Listener() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status GetCapabilities(grpc::ServerContext* context,
                               const v1::GetCapabilitiesRequest* /*request*/,
                               v1::GetCapabilitiesResponse* /*response*/) override {
    ++call_count;
    token_count += static_cast<int>(context->client_metadata().count("authorization"));
    return grpc::Status::OK;
  }

  std::atomic<int> call_count{0};
  std::atomic<int> token_count{0};

 private:
  std::unique_ptr<grpc::Server> server_;
};

class ShownTokenTest : public testing::Test {
 protected:
  ShownTokenTest() {
    KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
    KERF_CHECK(chmod(folder_.c_str(), 0777) == 0);
    path_ = folder_ + "/kerfd.sock";
    std::ofstream(folder_ + "/token") << "kerf_laptop_secret\n";
    auto token = TokenFile::Open(folder_ + "/token");
    KERF_CHECK(token.ok());
    token_ = *std::move(token);
  }
  ~ShownTokenTest() override { std::filesystem::remove_all(folder_); }

  ServerAddress Server(std::optional<uid_t> user = std::nullopt) const {
    return {"unix:" + path_, TlsChoice().WithToken(token_, user)};
  }
  static absl::Status Ask(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::GetCapabilitiesResponse response;
    return FromGrpc(
        v1::ChunkingService::NewStub(channel)->GetCapabilities(&context, {}, &response));
  }
  // gRPC waits between two tries to connect.
  static absl::Status AskSoon(const std::shared_ptr<grpc::Channel>& channel) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    absl::Status status = Ask(channel);
    while (!status.ok() && std::chrono::steady_clock::now() < end) status = Ask(channel);
    return status;
  }
  // Only root can, and not where others have no numbers, as in a sandbox.
  static bool CanBeMallory() { return seteuid(kMallory) == 0 && seteuid(0) == 0; }
  std::unique_ptr<Listener> ListenAsMallory() const {
    KERF_CHECK(seteuid(kMallory) == 0);
    auto listener = std::make_unique<Listener>(path_);
    KERF_CHECK(seteuid(0) == 0);
    return listener;
  }

  // TEST_TMPDIR is too long for a socket's path.
  std::string folder_ = "/tmp/kerf-token-XXXXXX";
  std::string path_;
  std::shared_ptr<const TokenFile> token_;
};

TEST_F(ShownTokenTest, IsShownToOnesOwnServerAlsoToTheNextOneAtItsPlace) {
  const auto channel = OpenChannel(Server());
  ASSERT_TRUE(channel.ok());
  EXPECT_TRUE(absl::IsUnavailable(Ask(*channel))) << "nobody is there yet";
  for (int start = 0; start < 2; ++start) {
    const Listener listener(path_);
    EXPECT_TRUE(AskSoon(*channel).ok());
    EXPECT_EQ(listener.call_count, 1);
    EXPECT_EQ(listener.token_count, 1);
  }
}

TEST_F(ShownTokenTest, NobodyElseIsConnectedToAndItIsSaidWhoThatIs) {
  if (!CanBeMallory()) GTEST_SKIP() << "nobody else can be had here";
  const auto listener = ListenAsMallory();
  const auto channel = OpenChannel(Server());
  ASSERT_TRUE(channel.ok());
  const absl::Status status = Ask(*channel);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  const absl::Status explained = ExplainByTls(status, Server(), nullptr);
  EXPECT_TRUE(IsTlsTrouble(explained)) << explained;
  EXPECT_THAT(std::string(MessageOf(explained)),
              HasSubstr(Cat(path_, " is a socket of user ", kMallory)));
  EXPECT_THAT(std::string(MessageOf(explained)), HasSubstr("--server-user"));
  EXPECT_EQ(listener->call_count, 0);
  // Who shows no token has nothing to lose by it.
  const ServerAddress plain{"unix:" + path_};
  EXPECT_TRUE(Ask(*OpenChannel(plain)).ok());
  EXPECT_EQ(ExplainByTls(status, plain, nullptr), status);
  EXPECT_TRUE(Ask(*OpenChannel(Server(kMallory))).ok());
  EXPECT_EQ(listener->token_count, 1);
}

// In the middle of what a channel is used for.
TEST_F(ShownTokenTest, WhoComesToStandAtTheServersPlaceGetsNone) {
  if (!CanBeMallory()) GTEST_SKIP() << "nobody else can be had here";
  auto honest = std::make_unique<Listener>(path_);
  const auto channel = OpenChannel(Server());
  ASSERT_TRUE(channel.ok());
  EXPECT_TRUE(Ask(*channel).ok());
  honest.reset();
  const auto mallory = ListenAsMallory();
  for (int round = 0; round < 5; ++round) {
    EXPECT_TRUE(absl::IsUnavailable(Ask(*channel)));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(mallory->call_count, 0);
}

}  // namespace
}  // namespace kerf::client
