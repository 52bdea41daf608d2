// A lane that goes past a front to the worker that it names, and through it where it cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"
#include "client/agent/backup/testing/resuming_lane_test.h"
#include "client/cpp/testing/silent_server.h"
#include "client/fs/testing/temporary_directory.h"
#include "grpcpp/security/server_credentials.h"
#include "kerf/v1/routing.grpc.pb.h"

namespace kerf::agent {
namespace {

using client::FakeServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Says what a test wants of where the worker is.
class FakeRouting final : public v1::RoutingService::Service {
 public:
  grpc::Status Locate(grpc::ServerContext* context, const v1::LocateRequest* request,
                      v1::LocateResponse* response) override {
    if (is_silent) return FakeServer::StaySilent(*context);
    std::lock_guard lock(mutex_);
    keys_.push_back(request->shard_key());
    avoided_.emplace_back(request->avoid().begin(), request->avoid().end());
    if (address_.empty()) return FakeServer::Refusal(grpc::StatusCode::UNAVAILABLE, "NO_WORKER");
    response->set_address(address_);
    response->set_tls_name(tls_name_);
    return grpc::Status::OK;
  }
  void SetAddress(const std::string& address) {
    std::lock_guard lock(mutex_);
    address_ = address;
  }
  // Of which it says that the worker's certificate is.
  void SetTlsName(const std::string& name) {
    std::lock_guard lock(mutex_);
    tls_name_ = name;
  }
  std::vector<std::string> keys() const {
    std::lock_guard lock(mutex_);
    return keys_;
  }
  std::vector<std::vector<std::string>> avoided() const {
    std::lock_guard lock(mutex_);
    return avoided_;
  }

  std::atomic<bool> is_silent = false;

 private:
  mutable std::mutex mutex_;
  std::string address_;
  std::string tls_name_;
  std::vector<std::string> keys_;
  std::vector<std::vector<std::string>> avoided_;
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
      front_ = std::make_unique<FakeServer>(*front_script_, &routing_, front_credentials_);
      upload.servers = {front_->address()};
      upload.tls = tls_;
      upload.direct = true;
      upload.question_pause = std::chrono::milliseconds(10);
      upload.stream.shard_key = "a key";
      upload.on_opened = [this](bool is_direct) { (is_direct ? direct_count_ : other_count_)++; };
      upload.on_detour = [this](const absl::Status& why) {
        std::lock_guard lock(mutex_);
        detours_.emplace_back(why.message());
      };
      if (adjust_routing_) adjust_routing_();
    };
    Start(straight);
  }
  static grpc::Status Ok(Moment /*now*/) { return grpc::Status::OK; }
  bool HasLost() {
    std::lock_guard lock(mutex_);
    return !lost_.empty();
  }

  static std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const CertifiedKey& own) {
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({own.key, own.certificate});
    return grpc::SslServerCredentials(options);
  }
  // Of a front that is known as "front.example", and nowhere by its address.
  void UseTls(const std::vector<std::string>& worker_names) {
    const TestCertificates& all = TestCertificates::Get();
    const std::string ca = folder_ / "ca.pem";
    WriteTlsFile(ca, all.ca.certificate);
    const auto tls = client::TlsChoice::Make({.ca = ca}, "front.example");
    ASSERT_TRUE(tls.ok()) << tls.status();
    tls_ = *tls;
    front_credentials_ = CredentialsOf(all.Of("front", {"front.example"}, true, false));
    credentials_ = CredentialsOf(all.Of("worker", worker_names, true, false));
  }

  const testing::TemporaryDirectory folder_;
  client::TlsChoice tls_;
  std::shared_ptr<grpc::ServerCredentials> front_credentials_ = grpc::InsecureServerCredentials();
  FakeRouting routing_;
  std::function<void()> adjust_routing_;
  std::unique_ptr<LosingServer> front_script_;
  std::unique_ptr<FakeServer> front_;
  std::vector<std::string> detours_;
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

TEST_F(LaneDirectTest, OverTlsAWorkerIsKnownByItsOwnAddress) {
  UseTls({"127.0.0.1"});
  StartDirect(Ok, Ok);
  const std::vector<std::string> files = {RandomContent(1'000'000)};
  EXPECT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  EXPECT_EQ(direct_count_, 1);
  EXPECT_EQ(front_script_->stream_count(), 0);
}

// As pods are, of which no certificate has the address.
TEST_F(LaneDirectTest, OverTlsAWorkerIsKnownByTheNameByWhichItsFrontKnowsIt) {
  UseTls({"workers.example"});
  routing_.SetTlsName("workers.example");
  StartDirect(Ok, Ok);
  const std::vector<std::string> files = {RandomContent(1'000'000)};
  EXPECT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  EXPECT_EQ(direct_count_, 1);
  EXPECT_EQ(front_script_->stream_count(), 0);
}

// Then by that alone, and by no words that are no name.
TEST_F(LaneDirectTest, OverTlsAWorkerOfAnotherNameThanItsFrontSaysIsNotUsed) {
  for (const auto& [name, why] : {std::pair{"others.example", "is not known to be others.example"},
                                  {"others.example\n", "a name for the worker at 127.0.0.1"}}) {
    SCOPED_TRACE(name);
    Reset();
    direct_count_ = 0;
    detours_.clear();
    UseTls({"127.0.0.1", "workers.example"});
    routing_.SetTlsName(name);
    StartDirect(Ok, Ok);
    EXPECT_TRUE(Upload({RandomContent(1'000'000)}).ok());
    End();
    EXPECT_THAT(detours_, ElementsAre(HasSubstr(why)));
    EXPECT_EQ(losing_->stream_count(), 0);
    EXPECT_EQ(direct_count_, 0);
  }
}

// The front's name is not a worker's, and who has no certificate at all is nobody.
TEST_F(LaneDirectTest, OverTlsAWorkerThatIsNotKnownIsNotUsed) {
  for (const bool is_in_the_clear : {false, true}) {
    SCOPED_TRACE(is_in_the_clear);
    Reset();
    direct_count_ = other_count_ = 0;
    detours_.clear();
    UseTls({"front.example"});
    if (is_in_the_clear) credentials_ = grpc::InsecureServerCredentials();
    StartDirect(Ok, Ok);
    EXPECT_TRUE(Upload({RandomContent(1'000'000)}).ok());
    End();
    EXPECT_THAT(detours_,
                ElementsAre(HasSubstr(is_in_the_clear ? "speaks no TLS"
                                                      : "is not known to be 127.0.0.1: its "
                                                        "certificate is for front.example")));
    EXPECT_EQ(losing_->stream_count(), 0);
    EXPECT_EQ(front_script_->stream_count(), 1);
    EXPECT_EQ(direct_count_, 0);
    EXPECT_EQ(other_count_, 1);
  }
}

// Each time, as another worker may have the key by then.
TEST_F(LaneDirectTest, TheFrontIsAskedAgainWhenAStreamWasLost) {
  std::atomic<int> answers = 0;
  StartDirect(
      [&](Moment now) {
        return now == Moment::kChunksSent && ++answers <= 3 ? kLost : grpc::Status::OK;
      },
      Ok);
  const std::string worker = server_->address();
  const std::vector<std::string> files = {RandomContent(3'000'000)};
  EXPECT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  EXPECT_EQ(routing_.keys().size(), 4u);
  EXPECT_EQ(direct_count_, 4);
  EXPECT_EQ(front_script_->stream_count(), 0);
  ASSERT_EQ(lost_.size(), 3u);
  EXPECT_EQ(lost_[0].server, worker) << "it was the worker's stream";
}

// Workers that have got nowhere are named to the front, until there is something; not those that
// were lost for other reasons.
TEST_F(LaneDirectTest, WorkersThatHaveNoIndexAreAvoidedUntilSomethingIsGot) {
  using enum grpc::StatusCode;
  std::atomic<int> count = 0;
  StartDirect(
      [&](Moment now) {
        if (now != Moment::kInData && now != Moment::kChunksSent) return grpc::Status::OK;
        const int at = count.load();
        // The sixth stream gets somewhere.
        if ((now == Moment::kChunksSent) != (at == 5)) return grpc::Status::OK;
        switch (count++) {
          case 0:
            return FakeServer::Refusal(UNAVAILABLE, "INDEX_UNAVAILABLE", "w1");
          case 1:
            return FakeServer::Refusal(UNAVAILABLE, "DRAINING", "w2");
          case 2:
            return FakeServer::Refusal(UNAVAILABLE, "WORKER_UNREACHABLE", "w3");
          case 3:
            return FakeServer::Refusal(UNAVAILABLE, "INDEX_UNAVAILABLE", "w1");
          case 4:
            // No worker is called so.
            return FakeServer::Refusal(UNAVAILABLE, "INDEX_UNAVAILABLE", std::string(254, 'w'));
          case 5:
            return kLost;
          default:
            return grpc::Status::OK;
        }
      },
      Ok);
  const std::vector<std::string> files = {RandomContent(3'000'000)};
  EXPECT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  using Names = std::vector<std::string>;
  EXPECT_EQ(routing_.avoided(),
            (std::vector<Names>{Names{}, Names{"w1"}, Names{"w1"}, Names{"w1", "w3"},
                                Names{"w1", "w3"}, Names{"w1", "w3"}, Names{}}));
}

TEST_F(LaneDirectTest, AWorkerThatCannotBeReachedIsMetThroughTheFront) {
  const std::pair<std::string, std::string> cases[] = {
      {"127.0.0.1:1", "nobody answers at 127.0.0.1:1"},
      {"unix:/nowhere", "unix:/nowhere, which is no address, or another machine's"},
      {"no address", "no address, which is no address"},
      {"", "NO_WORKER"}};
  for (const auto& [address, why] : cases) {
    SCOPED_TRACE(address);
    Reset();
    direct_count_ = other_count_ = 0;
    detours_.clear();
    adjust_routing_ = [this, named = address] { routing_.SetAddress(named); };
    StartDirect(Ok, Ok);
    const absl::Status status = Upload({RandomContent(100'000)});
    EXPECT_TRUE(status.ok()) << status;
    End();
    EXPECT_THAT(detours_, ElementsAre(HasSubstr(why)));
    EXPECT_EQ(losing_->stream_count(), 0);
    EXPECT_EQ(front_script_->stream_count(), 1);
    EXPECT_EQ(direct_count_, 0);
    EXPECT_EQ(other_count_, 1);
  }
}

// Whatever stands between, the front may know a way.
TEST_F(LaneDirectTest, AWorkerThatOpensNoStreamIsMetThroughTheFront) {
  for (const grpc::Status& refusal :
       {FakeServer::Refusal(grpc::StatusCode::UNAVAILABLE, "DRAINING"), kLost,
        grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "RBAC: access denied"),
        grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "")}) {
    SCOPED_TRACE(Cat(static_cast<int>(refusal.error_code()), " ", refusal.error_message()));
    Reset();
    direct_count_ = other_count_ = 0;
    StartDirect(
        [refusal](Moment now) { return now == Moment::kBeforeOpened ? refusal : grpc::Status::OK; },
        Ok);
    const absl::Status status = Upload({RandomContent(100'000)});
    EXPECT_TRUE(status.ok()) << status;
    End();
    EXPECT_EQ(losing_->stream_count(), 1);
    EXPECT_EQ(front_script_->stream_count(), 1);
    EXPECT_EQ(direct_count_, 0);
    EXPECT_EQ(other_count_, 1);
  }
}

// Where the front says so, too.
TEST_F(LaneDirectTest, WhatIsFinalThroughTheFrontIsFinal) {
  const grpc::Status refusal(grpc::StatusCode::PERMISSION_DENIED, "no");
  const auto refuse = [refusal](Moment /*now*/) { return refusal; };
  StartDirect(refuse, refuse);
  EXPECT_TRUE(absl::IsPermissionDenied(Upload({RandomContent(100'000)})));
  End();
  EXPECT_EQ(losing_->stream_count(), 1);
  EXPECT_EQ(front_script_->stream_count(), 1);
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

// As one that has lost its index is, to which nobody sends keys any more.
TEST_F(LaneDirectTest, ASilentWorkerIsLeftForTheOneThatTheFrontNamesByThen) {
  doubt_after_ = std::chrono::milliseconds(50);
  auto silent = std::make_shared<std::atomic<bool>>(false);
  StartDirect(
      [this, silent](Moment now) {
        if (now != Moment::kInData || silent->exchange(true)) return grpc::Status::OK;
        // Asked for a while, the front names the same worker.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        routing_.SetAddress(front_->address());
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!HasLost() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        return kLost;
      },
      Ok);
  const std::string worker = server_->address();
  std::jthread watch([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      static_cast<void>(lane_->Watch());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const absl::Status status = Upload({RandomContent(1'000'000)});
  watch.request_stop();
  watch.join();
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(lost_.size(), 1u);
  EXPECT_EQ(lost_[0].server, worker);
  EXPECT_THAT(std::string(lost_[0].status.message()), HasSubstr("is silent, and the front has"));
  End();
  EXPECT_EQ(completed_, 1u);
  EXPECT_EQ(losing_->stream_count(), 1);
  EXPECT_EQ(front_script_->stream_count(), 1);
  EXPECT_EQ(direct_count_, 2);
}

// Something between lets their beginning through, and nothing else.
TEST_F(LaneDirectTest, StreamsThatBreakWithoutAWordAreFollowedByOneThroughTheFront) {
  retry_.tries = 6;
  StartDirect([](Moment now) { return now == Moment::kInData ? kLost : grpc::Status::OK; }, Ok);
  const absl::Status status = Upload({RandomContent(1'000'000)});
  EXPECT_TRUE(status.ok()) << status;
  End();
  EXPECT_EQ(completed_, 1u);
  EXPECT_EQ(direct_count_, 2);
  EXPECT_EQ(front_script_->stream_count(), 1);
  EXPECT_THAT(detours_, ElementsAre(HasSubstr("break: Socket closed")));
}

// Two that break one behind the other: what was tried before for other reasons does not count.
TEST_F(LaneDirectTest, OneStreamThatBreaksIsFollowedByAnotherOneStraight) {
  const grpc::Status refusal = FakeServer::Refusal(grpc::StatusCode::UNAVAILABLE, "DRAINING");
  for (const bool has_answered : {false, true}) {
    SCOPED_TRACE(has_answered ? "the first one was answered" : "the first one had a reason");
    Reset();
    direct_count_ = other_count_ = 0;
    auto ends = std::make_shared<std::atomic<int>>(0);
    StartDirect(
        [refusal, has_answered, ends](Moment now) {
          if (*ends == 0) {
            if (now != (has_answered ? Moment::kChunksSent : Moment::kInData)) {
              return grpc::Status::OK;
            }
            ++*ends;
            return has_answered ? kLost : refusal;
          }
          if (*ends > 1 || now != Moment::kInData) return grpc::Status::OK;
          ++*ends;
          return kLost;
        },
        Ok);
    const absl::Status status = Upload({RandomContent(1'000'000)});
    EXPECT_TRUE(status.ok()) << status;
    End();
    EXPECT_EQ(completed_, 1u);
    EXPECT_EQ(direct_count_, 3);
    EXPECT_EQ(front_script_->stream_count(), 0);
  }
  EXPECT_TRUE(detours_.empty());
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
  EXPECT_TRUE(detours_.empty());
}

// An agent that is done gives up the lanes that it need not have: nothing is between it and a
// worker that had no time to answer.
TEST_F(LaneDirectTest, CancelEndsTheConnectingAndIsNoDetour) {
  const client::SilentServer worker;
  adjust_routing_ = [this, &worker] { routing_.SetAddress(worker.address()); };
  StartDirect(Ok, Ok);
  while (routing_.keys().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_FALSE(*lane_->WaitOpened(std::chrono::milliseconds(200)));
  lane_->Stop();
  EXPECT_EQ(direct_count_ + other_count_, 0);
  EXPECT_TRUE(detours_.empty());
}

}  // namespace
}  // namespace kerf::agent
