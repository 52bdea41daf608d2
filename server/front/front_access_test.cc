// Who calls a front that asks so. e2e/access_test.cc has TLS, and workers that ask, too.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "server/access/access_source.h"
#include "server/audit/sink.h"
#include "server/edge/testing/test_upload.h"
#include "server/edge/testing/test_worker.h"
#include "server/front/front_server.h"
#include "server/front/testing/front_test.h"

namespace kerf {
namespace {

class FrontAccessTest : public FrontTest {
 protected:
  ~FrontAccessTest() override { std::filesystem::remove(file_); }

  void Write(const std::string& text) {
    std::ofstream(file_ + ".new") << text;
    std::filesystem::rename(file_ + ".new", file_);
  }

  // A worker's calls, and with how many of them a token came.
  ScriptedWorker::Script CountTokens() {
    return [this](grpc::ServerContext& context, ScriptedWorker::Stream&) {
      token_count_ += static_cast<int>(context.client_metadata().count("authorization"));
      ++call_count_;
      return grpc::Status::OK;
    };
  }
  static void ShowToken(const std::string& address) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer kerf_nightly_0123456789abcdefghijABCDEFGHIJ");
    const auto stub = v1::ChunkingService::NewStub(ConnectTo(address));
    EXPECT_TRUE(stub->Upload(&context)->Finish().ok());
  }

  std::atomic<int> token_count_ = 0;
  std::atomic<int> call_count_ = 0;
  // The user of this process.
  const std::string self_ = Cat("[[identity]]\nname = \"user/", getuid(), "\"\n");
  const std::string file_ = Cat(std::getenv("TEST_TMPDIR"), "/access-", getpid(), ".toml");
  std::unique_ptr<access::AccessSource> source_;
};

// Its workers may ask nobody, or have another file; and whose token was changed only it can know.
TEST_F(FrontAccessTest, AStreamEndsWhenItsCallerIsTakenOutOfTheFrontsFile) {
  Write(Cat(self_, "[[identity.grant]]\nrole = \"write\"\nrepositories = [\"home\"]\n"));
  auto source = access::AccessSource::Open(file_, nullptr, std::chrono::milliseconds(20));
  ASSERT_TRUE(source.ok()) << source.status();
  source_ = *std::move(source);
  TestWorker worker(FreshSocketAddress());
  FrontOptions options = Options({worker.address()});
  options.access = source_.get();
  const auto channel = StartAndConnect(options);
  TestUpload upload(channel);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  Write(self_);
  ASSERT_TRUE(Eventually([&] { return front().stream_count() == 0; }));
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "NOT_YOURS");
  EXPECT_TRUE(Eventually([&] { return worker.server().stream_count() == 0; }));
}

// The audit logs of workers cannot tell of it: it never came to one.
TEST_F(FrontAccessTest, WhoHasTooManyConnectionsIsInTheFrontsAuditLog) {
  Write(Cat(self_, "max_connections = 2\n[[identity.grant]]\nrole = \"write\"\n",
            "repositories = [\"home\"]\n"));
  auto source = access::AccessSource::Open(file_, nullptr);
  ASSERT_TRUE(source.ok()) << source.status();
  source_ = *std::move(source);
  const std::string log_path = file_ + ".log";
  auto sink = audit::Sink::Open({.path = log_path, .worker = "front"});
  ASSERT_TRUE(sink.ok()) << sink.status();
  TestWorker worker(FreshSocketAddress());
  FrontOptions options = Options({worker.address()});
  options.access = source_.get();
  options.audit = sink->get();
  const FrontServer& front = Start(options);
  std::vector<std::shared_ptr<grpc::Channel>> open;
  std::vector<std::string> reasons;
  for (int count = 0; count < 3; ++count) {
    open.push_back(ConnectTo(front.addresses()[0]));
    grpc::ClientContext context;
    v1::GetCapabilitiesResponse response;
    const grpc::Status status =
        v1::ChunkingService::NewStub(open.back())->GetCapabilities(&context, {}, &response);
    reasons.push_back(status.ok() ? "" : ReasonOf(status));
  }
  EXPECT_EQ(reasons, (std::vector<std::string>{"", "", "QUOTA_EXCEEDED"}));
  fronts_.back()->Stop();
  sink->reset();
  std::ifstream file(log_path);
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(log_path);
  EXPECT_NE(log.find(Cat("\"identity\":\"user/", getuid(), "\",\"proof\":\"user\"")),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("\"outcome\":\"QUOTA_EXCEEDED\""), std::string::npos) << log;
  EXPECT_NE(log.find("\"worker\":\"front\""), std::string::npos) << log;
}

// It says who it was itself, and the secret is nobody else's.
TEST_F(FrontAccessTest, ATokenThatTheFrontTakesGoesNoFurther) {
  // sha256sum of the token.
  Write(
      "[[identity]]\nname = \"token/nightly\"\n"
      "sha256 = \"b9d93d96a930687fbef49895b334ee4d075273f24e78a16082401e9c17925e35\"\n"
      "[[identity.grant]]\nrole = \"write\"\nrepositories = [\"*\"]\n");
  auto source = access::AccessSource::Open(file_, nullptr);
  ASSERT_TRUE(source.ok()) << source.status();
  source_ = *std::move(source);
  std::string said;
  const ScriptedWorker worker(
      [&](grpc::ServerContext& context, ScriptedWorker::Stream& stream) {
        const auto& metadata = context.client_metadata();
        const auto identity = metadata.find("kerf-identity");
        if (identity != metadata.end())
          said = std::string(identity->second.data(), identity->second.size());
        return CountTokens()(context, stream);
      },
      FreshSocketAddress());
  FrontOptions options = Options({worker.address()});
  options.access = source_.get();
  ShowToken(Start(options).addresses()[0]);
  EXPECT_EQ(call_count_, 1);
  EXPECT_EQ(token_count_, 0);
  EXPECT_EQ(said, "token token/nightly");
}

// A front that does not ask leaves tokens to its workers, which see only how it speaks to them.
TEST_F(FrontAccessTest, ATokenThatCameInTheClearIsNotPassedOn) {
  const ScriptedWorker worker(CountTokens(), FreshSocketAddress());
  FrontOptions options = Options({worker.address()});
  options.listen.emplace_back("127.0.0.1:0");
  const FrontServer& front = Start(options);
  for (const auto& [address, expected] :
       {std::pair(front.addresses()[0], 1), {front.addresses()[1], 1}}) {
    ShowToken(address);
    EXPECT_EQ(token_count_, expected) << address;
  }
  EXPECT_EQ(call_count_, 2);
}

// Nor where others could read it behind the front: whoever needs no token is served all the same.
TEST_F(FrontAccessTest, ATokenIsNotPassedOnToWhereOthersCouldReadIt) {
  const ScriptedWorker in_the_clear(CountTokens());
  ShowToken(Start(Options({in_the_clear.address()})).addresses()[0]);
  EXPECT_EQ(call_count_, 1);
  EXPECT_EQ(token_count_, 0);
  constexpr uid_t kMallory = 23'456;
  std::string folder = "/tmp/kerf-mallory-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  // Only root can, and not where others have no numbers, as in a sandbox.
  if (seteuid(kMallory) != 0) {
    std::filesystem::remove_all(folder);
    return;
  }
  const ScriptedWorker others(CountTokens(), Cat("unix:", folder, "/worker.sock"));
  ASSERT_EQ(seteuid(0), 0);
  ShowToken(Start(Options({others.address()})).addresses()[0]);
  EXPECT_EQ(call_count_, 2);
  EXPECT_EQ(token_count_, 0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kerf
