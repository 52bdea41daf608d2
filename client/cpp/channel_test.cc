#include "client/cpp/channel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/cpp/failed_call.h"
#include "google/rpc/status.pb.h"

namespace kerf::client {
namespace {

// Takes connections, and never says a word.
class SilentServer {
 public:
  SilentServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    auto* const generic = reinterpret_cast<sockaddr*>(&address_);
    KERF_CHECK(bind(listener_.get(), generic, length) == 0 && listen(listener_.get(), 8) == 0);
    KERF_CHECK(getsockname(listener_.get(), generic, &length) == 0);
  }
  std::string address() const { return Cat("127.0.0.1:", ntohs(address_.sin_port)); }

 private:
  const UniqueFd listener_;
  sockaddr_in address_{};
};

TEST(OpenChannelTest, NobodyWaitsForAServerAfterACancellation) {
  const SilentServer server;
  const std::string servers = Cat(server.address(), ",", server.address());
  CallCancellation cancellation;
  cancellation.Cancel();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(OpenChannel({servers}, &cancellation).ok());
  // Each of them is given 3 s else.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(3));
}

// A server that names a detail as this library names what it knows itself.
TEST(FromGrpcTest, NoServerSaysWhichCallItWas) {
  const absl::Status honest = WithRequestId(absl::UnavailableError("gone"), "mine");
  ASSERT_EQ(RequestIdOf(honest), "mine");
  google::rpc::Status details;
  honest.ForEachPayload([&](absl::string_view name, const absl::Cord& /*value*/) {
    google::protobuf::Any& detail = *details.add_details();
    detail.set_type_url(std::string(name));
    detail.set_value("theirs");
  });
  ASSERT_EQ(details.details_size(), 1);
  const absl::Status received =
      FromGrpc({grpc::StatusCode::UNAVAILABLE, "gone", details.SerializeAsString()});
  EXPECT_EQ(RequestIdOf(received), "");
  EXPECT_EQ(RequestIdOf(WithRequestId(received, "mine")), "mine");
}

}  // namespace
}  // namespace kerf::client
