#include "client/cpp/channel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "base/strings.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/testing/silent_server.h"
#include "google/rpc/status.pb.h"

namespace kerf::client {
namespace {

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
