// Who calls, where TCP is in the clear and on a unix socket: e2e/access_test.cc has TLS.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/strings.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "server/access/access_source.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

constexpr char kToken[] = "kerf_nightly_0123456789abcdefghijABCDEFGHIJ";

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() {
    std::ofstream(file_)
        << "[[identity]]\nname = \"user/" << getuid()
        << "\"\n[[identity]]\nname = \"token/nightly\"\nsha256 = "
           "\"0000000000000000000000000000000000000000000000000000000000000000\"\n";
    auto source = access::AccessSource::Open(file_, nullptr);
    EXPECT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
    ServerOptions options;
    options.listen = {"127.0.0.1:0", FreshSocketAddress()};
    options.access = source_.get();
    auto server = Server::Start(options, index_.get());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~AccessTest() override {
    server_->Stop();
    std::filesystem::remove(file_);
  }

  grpc::Status Ask(std::size_t address, const std::string& authorization = "") {
    const auto stub = v1::ChunkingService::NewStub(ConnectTo(server_->addresses()[address]));
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    v1::GetCapabilitiesResponse response;
    return stub->GetCapabilities(&context, {}, &response);
  }
  std::string Metrics() {
    metrics::Page page;
    server_->AddMetrics(page);
    return page.text();
  }

  const std::string file_ = Cat(std::getenv("TEST_TMPDIR"), "/access-", getpid(), ".toml");
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<access::AccessSource> source_;
  std::unique_ptr<Server> server_;
};

constexpr std::size_t kTcp = 0;
constexpr std::size_t kUnix = 1;

// Whoever could read it on its way has it now: whether it is a good one is not even looked at.
TEST_F(AccessTest, ATokenInTheClearIsNotTaken) {
  const grpc::Status status = Ask(kTcp, Cat("Bearer ", kToken));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(ReasonOf(status), "UNKNOWN_CALLER");
  EXPECT_NE(status.error_message().find("in the clear"), std::string::npos);
  EXPECT_EQ(status.error_message().find("nightly"), std::string::npos);
  EXPECT_NE(Metrics().find("kerf_access_refused_total{reason=\"token_in_the_clear\"} 1\n"),
            std::string::npos);
}

TEST_F(AccessTest, NobodyIsKnownInTheClear) {
  const grpc::Status status = Ask(kTcp);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(ReasonOf(status), "UNKNOWN_CALLER");
}

TEST_F(AccessTest, AUnixSocketTellsWhoIsThere) {
  EXPECT_TRUE(Ask(kUnix).ok()) << Ask(kUnix).error_message();
  EXPECT_EQ(Ask(kUnix, Cat("Bearer ", kToken)).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Ask(kUnix, "Basic eDp5").error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace kerf
