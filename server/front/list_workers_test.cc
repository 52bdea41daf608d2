// The list of a front's workers, and clients that do not take it.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "kerf/v1/routing.grpc.pb.h"
#include "server/edge/testing/test_upload.h"
#include "server/front/front_server.h"
#include "server/front/testing/front_test.h"

namespace kerf {
namespace {

constexpr std::size_t kPlaces = 8;
constexpr std::chrono::seconds kPlaceTime{5};

// Asks for the list, and has a window of five bytes for it.
class UnreadList final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit UnreadList(const std::string& address) : stub_(ChannelTo(address)) {
    stub_.PrepareBidiStreamingCall(&context_, "/kerf.v1.RoutingService/ListWorkers", {}, this);
    StartWriteLast(&request_, {});
    StartCall();
  }
  ~UnreadList() override {
    context_.TryCancel();
    done_.get_future().wait();
  }
  void OnDone(const grpc::Status& /*status*/) override { done_.set_value(); }

 private:
  static std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  const grpc::Slice nothing_;
  const grpc::ByteBuffer request_{&nothing_, 1};
  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  std::promise<void> done_;
};

grpc::Status List(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  v1::ListWorkersResponse response;
  return v1::RoutingService::NewStub(channel)->ListWorkers(&context, {}, &response);
}

class ListWorkersTest : public FrontTest {};

TEST_F(ListWorkersTest, WhoDoesNotTakeItHoldsOneOfAFewPlacesAndNotForLong) {
  FrontOptions options = Options({FreshSocketAddress(), FreshSocketAddress()});
  // A thread of the front's may ask to its end.
  const auto passed = std::make_shared<std::atomic<int>>(0);
  options.clock = [passed] { return TimePoint() + std::chrono::seconds(1000 + *passed); };
  options.watchdog_interval = std::chrono::milliseconds(0);
  const std::string address = Start(options).addresses()[0];
  const auto channel = ConnectTo(address);
  ASSERT_TRUE(List(channel).ok());
  std::vector<std::unique_ptr<UnreadList>> unread;
  unread.reserve(kPlaces);
  for (std::size_t index = 0; index < kPlaces; ++index) {
    unread.push_back(std::make_unique<UnreadList>(address));
  }
  ASSERT_TRUE(Eventually([&] { return !List(channel).ok(); }));
  EXPECT_EQ(ReasonOf(List(channel)), "TOO_MANY_CALLS");
  *passed = kPlaceTime.count() - 1;
  EXPECT_EQ(front().CheckTimeouts(), 0u);
  EXPECT_EQ(ReasonOf(List(channel)), "TOO_MANY_CALLS");
  *passed = kPlaceTime.count();
  EXPECT_EQ(front().CheckTimeouts(), kPlaces);
  EXPECT_TRUE(Eventually([&] { return List(channel).ok(); }));
  EXPECT_EQ(front().CheckTimeouts(), 0u);
}

TEST_F(ListWorkersTest, WhoTakesItLeavesHisPlace) {
  const auto channel = StartAndConnect(Options({FreshSocketAddress(), FreshSocketAddress()}));
  for (std::size_t index = 0; index < 3 * kPlaces; ++index) {
    ASSERT_TRUE(Eventually([&] { return List(channel).ok(); }));
  }
}

}  // namespace
}  // namespace kerf
