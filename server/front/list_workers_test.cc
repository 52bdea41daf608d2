// The list of a front's workers, and clients that do not take it.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
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
  void OnDone(const grpc::Status& /*status*/) override {
    is_done_ = true;
    done_.set_value();
  }
  void OnReadInitialMetadataDone(bool ok) override { is_answered_ = ok; }

  // The answer has begun, and what remains of it does not fit the window.
  bool holds_a_place() const { return is_answered_ && !is_done_; }
  // It was refused.
  bool is_done() const { return is_done_; }

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
  std::atomic<bool> is_answered_ = false;
  std::atomic<bool> is_done_ = false;
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
  unread.resize(kPlaces);
  // A list that was taken may hold its place for a moment longer, and one of these come too early.
  ASSERT_TRUE(Eventually([&] {
    for (std::unique_ptr<UnreadList>& one : unread) {
      if (one == nullptr || one->is_done()) one = std::make_unique<UnreadList>(address);
    }
    const bool is_full = !List(channel).ok();
    return is_full && std::all_of(unread.begin(), unread.end(),
                                  [](const auto& one) { return one->holds_a_place(); });
  }));
  EXPECT_EQ(ReasonOf(List(channel)), "TOO_MANY_CALLS");
  *passed = kPlaceTime.count() - 1;
  EXPECT_EQ(front().CheckTimeouts(), 0u);
  EXPECT_EQ(ReasonOf(List(channel)), "TOO_MANY_CALLS");
  *passed = kPlaceTime.count();
  EXPECT_EQ(front().CheckTimeouts(), kPlaces);
  EXPECT_TRUE(Eventually([&] { return List(channel).ok(); }));
  // One that has been ended is looked at until it has left.
  EXPECT_TRUE(Eventually([&] { return front().CheckTimeouts() == 0; }));
}

TEST_F(ListWorkersTest, WhoTakesItLeavesHisPlace) {
  const auto channel = StartAndConnect(Options({FreshSocketAddress(), FreshSocketAddress()}));
  for (std::size_t index = 0; index < 3 * kPlaces; ++index) {
    ASSERT_TRUE(Eventually([&] { return List(channel).ok(); }));
  }
}

}  // namespace
}  // namespace kerf
