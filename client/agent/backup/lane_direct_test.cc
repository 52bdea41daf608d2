// A lane that goes past a front to the worker that it names, and through it where it cannot.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/agent/backup/testing/resuming_lane_test.h"
#include "kerf/v1/routing.grpc.pb.h"

namespace kerf::agent {
namespace {

using client::FakeServer;

// Says what a test wants of where the worker is.
class FakeRouting final : public v1::RoutingService::Service {
 public:
  grpc::Status Locate(grpc::ServerContext* context, const v1::LocateRequest* request,
                      v1::LocateResponse* response) override {
    if (is_silent) return FakeServer::StaySilent(*context);
    std::lock_guard lock(mutex_);
    keys_.push_back(request->shard_key());
    if (address_.empty()) return FakeServer::Refusal(grpc::StatusCode::UNAVAILABLE, "NO_WORKER");
    response->set_address(address_);
    return grpc::Status::OK;
  }
  void SetAddress(const std::string& address) {
    std::lock_guard lock(mutex_);
    address_ = address;
  }
  std::vector<std::string> keys() const {
    std::lock_guard lock(mutex_);
    return keys_;
  }

  std::atomic<bool> is_silent = false;

 private:
  mutable std::mutex mutex_;
  std::string address_;
  std::vector<std::string> keys_;
};

// The fixture's own server is the worker, and a front stands beside it.
class LaneDirectTest : public ResumingLaneTest {
 protected:
  // The lane speaks to what is in here.
  ~LaneDirectTest() override { End(); }

  // `through` is asked of each moment of a stream that the front passes on.
  void StartDirect(const LosingServer::Choose& straight, const LosingServer::Choose& through) {
    adjust_upload_ = [this, through](client::ResumingUpload::Options& upload) {
      routing_.SetAddress(server_->address());
      front_script_ = std::make_unique<LosingServer>(through);
      front_ = std::make_unique<FakeServer>(*front_script_, &routing_);
      upload.servers = {front_->address()};
      upload.direct = true;
      upload.stream.shard_key = "a key";
      upload.on_opened = [this](bool is_direct) { (is_direct ? direct_count_ : other_count_)++; };
      if (adjust_routing_) adjust_routing_();
    };
    Start(straight);
  }
  static grpc::Status Ok(Moment /*now*/) { return grpc::Status::OK; }

  FakeRouting routing_;
  std::function<void()> adjust_routing_;
  std::unique_ptr<LosingServer> front_script_;
  std::unique_ptr<FakeServer> front_;
  std::atomic<int> direct_count_ = 0;
  std::atomic<int> other_count_ = 0;
};

TEST_F(LaneDirectTest, TheFrontIsAskedAndPassesNothingOn) {
  StartDirect(Ok, Ok);
  const std::vector<std::string> files = {RandomContent(1'000'000), RandomContent(10)};
  EXPECT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  EXPECT_EQ(routing_.keys(), std::vector<std::string>{"a key"});
  EXPECT_EQ(front_script_->stream_count(), 0);
  EXPECT_EQ(direct_count_, 1);
  EXPECT_EQ(other_count_, 0);
}

// Each time, as another worker may have the key by then.
TEST_F(LaneDirectTest, TheFrontIsAskedAgainWhenAStreamWasLost) {
  std::atomic<int> answers = 0;
  StartDirect(
      [&](Moment now) {
        return now == Moment::kChunksSent && ++answers <= 3 ? kLost : grpc::Status::OK;
      },
      Ok);
  const std::vector<std::string> files = {RandomContent(3'000'000)};
  EXPECT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  EXPECT_EQ(routing_.keys().size(), 4u);
  EXPECT_EQ(direct_count_, 4);
  EXPECT_EQ(front_script_->stream_count(), 0);
  ASSERT_EQ(lost_.size(), 3u);
  EXPECT_NE(lost_[0].server, front_->address()) << "it was the worker's stream";
}

TEST_F(LaneDirectTest, AWorkerThatCannotBeReachedIsMetThroughTheFront) {
  for (const std::string& address : {std::string("127.0.0.1:1"), std::string("unix:/nowhere"),
                                     std::string("no address"), std::string()}) {
    SCOPED_TRACE(address);
    Reset();
    direct_count_ = other_count_ = 0;
    adjust_routing_ = [this, address] { routing_.SetAddress(address); };
    StartDirect(Ok, Ok);
    const absl::Status status = Upload({RandomContent(100'000)});
    EXPECT_TRUE(status.ok()) << status;
    End();
    EXPECT_EQ(losing_->stream_count(), 0);
    EXPECT_EQ(front_script_->stream_count(), 1);
    EXPECT_EQ(direct_count_, 0);
    EXPECT_EQ(other_count_, 1);
  }
}

// Whatever stands between, the front may know a way.
TEST_F(LaneDirectTest, AWorkerThatOpensNoStreamIsMetThroughTheFront) {
  const grpc::Status refusal = FakeServer::Refusal(grpc::StatusCode::UNAVAILABLE, "DRAINING");
  StartDirect(
      [refusal](Moment now) { return now == Moment::kBeforeOpened ? refusal : grpc::Status::OK; },
      Ok);
  EXPECT_TRUE(Upload({RandomContent(100'000)}).ok());
  End();
  EXPECT_EQ(losing_->stream_count(), 1);
  EXPECT_EQ(front_script_->stream_count(), 1);
  EXPECT_EQ(direct_count_, 0);
  EXPECT_EQ(other_count_, 1);
}

// And the one after that tries the worker again.
TEST_F(LaneDirectTest, AfterAStreamThroughTheFrontTheWorkerIsTriedAgain) {
  const grpc::Status refusal = FakeServer::Refusal(grpc::StatusCode::UNAVAILABLE, "DRAINING");
  auto refused = std::make_shared<std::atomic<bool>>(false);
  auto lost = std::make_shared<std::atomic<bool>>(false);
  StartDirect(
      [refusal, refused](Moment now) {
        return now == Moment::kBeforeOpened && !refused->exchange(true) ? refusal
                                                                        : grpc::Status::OK;
      },
      [lost](Moment now) {
        return now == Moment::kInData && !lost->exchange(true) ? kLost : grpc::Status::OK;
      });
  EXPECT_TRUE(Upload({RandomContent(1'000'000)}).ok());
  End();
  EXPECT_EQ(losing_->stream_count(), 2);
  EXPECT_EQ(front_script_->stream_count(), 1);
  EXPECT_EQ(direct_count_, 1);
  EXPECT_EQ(other_count_, 1);
}

// A kerfd that is no front is its own worker.
TEST_F(LaneDirectTest, AServerThatIsNoFrontIsUsedItself) {
  adjust_upload_ = [](client::ResumingUpload::Options& upload) { upload.direct = true; };
  Start(Ok);
  const std::vector<std::string> files = {RandomContent(100'000)};
  EXPECT_TRUE(Upload(files).ok());
  ExpectWhole(files);
}

TEST_F(LaneDirectTest, CancelEndsTheAsking) {
  routing_.is_silent = true;
  StartDirect(Ok, Ok);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_FALSE(*lane_->WaitOpened(std::chrono::milliseconds(50)));
  lane_->Stop();
  // Less than the question would have had.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_EQ(direct_count_ + other_count_, 0);
}

}  // namespace
}  // namespace kerf::agent
