#include "client/cpp/channel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"
#include "base/strings.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/testing/fake_server.h"
#include "client/cpp/testing/silent_server.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/chunking.grpc.pb.h"

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

// gRPC has the code of a quota for it, with which kerf would say that there is no room.
TEST(FromGrpcTest, AnAnswerThatIsTooLargeIsThePeersFault) {
  const FakeServer server([](grpc::ServerContext&, FakeServer::Stream& stream) {
    v1::UploadResponse response;
    response.add_answers()->mutable_chunks()->add_chunks()->set_digest(
        std::string(std::size_t{limits::kMaxReceivedBytes} + 1, 'x'));
    stream.Write(response);
    return grpc::Status::OK;
  });
  const auto channel = OpenChannel({server.address()});
  ASSERT_TRUE(channel.ok()) << channel.status();
  grpc::ClientContext context;
  const auto stream = v1::ChunkingService::NewStub(*channel)->Upload(&context);
  v1::UploadResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const absl::Status status = FromGrpc(stream->Finish());
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_TRUE(IsWrongAnswer(status)) << status;
}

TEST(FromGrpcTest, AServerThatHasNoRoomIsBelieved) {
  for (const grpc::Status& status :
       {FakeServer::Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"),
        grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "busy")}) {
    EXPECT_TRUE(absl::IsResourceExhausted(FromGrpc(status)));
    EXPECT_FALSE(IsWrongAnswer(FromGrpc(status)));
  }
}

}  // namespace
}  // namespace kerf::client
