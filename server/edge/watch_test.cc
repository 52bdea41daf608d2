// What a server tells of its calls: where a stream waits, and which call an error answers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/request_id.h"
#include "base/strings.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "kerf/v1/index.grpc.pb.h"
#include "kerf/v1/status.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/forwarding_index.h"
#include "server/index/memory_index.h"
#include "server/metrics/page.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

// Answers no lookup until it is told to.
class GatedIndex final : public ForwardingIndex {
 public:
  GatedIndex() : ForwardingIndex(CreateMemoryIndex()) {}

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
    return ForwardingIndex::Lookup(repository, session_epoch, digests, results);
  }
  void SetHealth(IndexHealth health) {
    const std::lock_guard lock(mutex_);
    health_ = std::move(health);
  }
  IndexHealth health() const override {
    const std::lock_guard lock(mutex_);
    return health_;
  }
  void SetOpen(bool is_open) {
    {
      const std::lock_guard lock(mutex_);
      is_open_ = is_open;
    }
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
  IndexHealth health_;
};

class WatchTest : public testing::Test {
 protected:
  WatchTest() {
    ServerOptions options;
    options.listen = {FreshSocketAddress()};
    options.watchdog_interval = milliseconds(0);
    options.clock = [this] { return TimePoint(milliseconds(now_ms_.load())); };
    options.timeouts.stall_warn = milliseconds(1000);
    auto server = Server::Start(options, &index_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(server_->addresses().front());
  }
  ~WatchTest() override {
    index_.SetOpen(true);
    server_->Stop();
  }

  // The value of a line of the page of metrics, -1 if it is not there.
  double Value(const std::string& series) const {
    metrics::Page page;
    server_->AddMetrics(page);
    const std::size_t at = page.text().find(Cat("\n", series, " "));
    return at == std::string::npos ? -1 : std::stod(page.text().substr(at + series.size() + 2));
  }
  double Stalled(const std::string& place) const {
    return Value(Cat("kerf_stalled_streams{place=\"", place, "\"}"));
  }
  double Stalls(const std::string& place) const {
    return Value(Cat("kerf_stalls_total{place=\"", place, "\"}"));
  }
  // Looks now and again without any time passing on the server's clock, until so many streams
  // stall there.
  bool LooksUntil(const std::string& place, double stalled) {
    for (int round = 0; round < 1000; ++round) {
      server_->CheckTimeouts();
      if (Stalled(place) == stalled) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }
  // The stream's wait is seen at its beginning, and then for longer than is tolerated.
  bool StallsAt(const std::string& place) {
    for (int round = 0; round < 40; ++round) {
      server_->CheckTimeouts();
      now_ms_ += 1000;
      server_->CheckTimeouts();
      if (Stalled(place) == 1) return true;
      std::this_thread::sleep_for(milliseconds(25));
    }
    return false;
  }

  std::atomic<std::int64_t> now_ms_{1'000'000};
  GatedIndex index_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(WatchTest, AClientThatSendsNothingInMidFileIsToldOf) {
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenFor("r")));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  // Between files nobody stalls.
  server_->CheckTimeouts();
  now_ms_ += 20'000;
  server_->CheckTimeouts();
  EXPECT_EQ(Stalls("client_data"), 0);
  testing::internal::CaptureStderr();
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  const bool stalls = StallsAt("client_data");
  // A time that is over is told of once.
  server_->CheckTimeouts();
  upload.Cancel();
  const bool is_over = LooksUntil("client_data", 0);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(stalls);
  EXPECT_TRUE(is_over);
  EXPECT_EQ(Stalls("client_data"), 1);
  EXPECT_NE(log.find("stream waits place=client_data waited_ms="), std::string::npos) << log;
  EXPECT_NE(log.find(" request_id="), std::string::npos) << log;
  EXPECT_NE(log.find(" session="), std::string::npos) << log;
}

TEST_F(WatchTest, AClientThatDribblesFillsNoLog) {
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenFor("r")));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  testing::internal::CaptureStderr();
  upload.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); });
  bool stalls = true;
  for (int round = 0; round < 3; ++round) {
    stalls = stalls && StallsAt("client_data");
    upload.SendFrame([](v1::UploadFrame& frame) { frame.set_data("x"); });
    stalls = stalls && LooksUntil("client_data", 0);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(stalls);
  EXPECT_EQ(Stalls("client_data"), 3);
  // It may have been seen waiting for a thread, too.
  for (const std::string text :
       {"stream waits place=client_data", "stream goes on place=client_data"}) {
    EXPECT_NE(log.find(text), std::string::npos) << log;
    EXPECT_EQ(log.find(text), log.rfind(text)) << log;
  }
}

TEST_F(WatchTest, AnIndexThatDoesNotAnswerIsToldOfAndSoIsItsAnswer) {
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenFor("r")));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  testing::internal::CaptureStderr();
  index_.SetOpen(false);
  ASSERT_TRUE(upload.SendFile(std::string(100'000, 'x')));
  const bool stalls = StallsAt("lookup");
  index_.SetOpen(true);
  const bool is_answered = upload.WaitForChunks(1, 100'000);
  const bool goes_on = LooksUntil("lookup", 0);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(stalls);
  EXPECT_TRUE(is_answered);
  EXPECT_TRUE(goes_on);
  EXPECT_EQ(Stalls("lookup"), 1);
  EXPECT_NE(log.find("warning stream waits place=lookup"), std::string::npos) << log;
  EXPECT_NE(log.find("info stream goes on place=lookup"), std::string::npos) << log;
}

// The id in the ErrorInfo that a call is answered with, when it says that it has `id`.
std::string AnsweredId(const std::shared_ptr<grpc::Channel>& channel, const std::string& id) {
  grpc::ClientContext context;
  if (!id.empty()) context.AddMetadata(kRequestIdMetadata, id);
  v1::GetIndexStatsResponse response;
  // It names no repository.
  const grpc::Status status =
      v1::IndexService::NewStub(channel)->GetIndexStats(&context, {}, &response);
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  for (const auto& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) return info.metadata().at("request_id");
  }
  return "no ErrorInfo";
}

TEST_F(WatchTest, AnErrorSaysWhichCallItAnswers) {
  EXPECT_EQ(AnsweredId(channel_, "0123456789abcdef"), "0123456789abcdef");
  // One that came without an id, or with what is none, has got one.
  EXPECT_EQ(AnsweredId(channel_, "").size(), 32u);
  EXPECT_EQ(AnsweredId(channel_, "\"}forged").size(), 32u);
  EXPECT_EQ(AnsweredId(channel_, std::string(65, 'x')).size(), 32u);
}

// What health says, once the watchdog has looked.
int HealthOf(Server& server, const std::shared_ptr<grpc::Channel>& channel) {
  server.CheckTimeouts();
  grpc::TemplatedGenericStub<google::protobuf::MessageLite, google::protobuf::MessageLite> stub(
      channel);
  grpc::ClientContext context;
  const grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                 [&](const grpc::Status& status) { ended.set_value(status); });
  return ended.get_future().get().ok() ? response.status() : -1;
}

v1::GetStatusResponse StatusOf(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  EXPECT_TRUE(v1::StatusService::NewStub(channel)->GetStatus(&context, {}, &response).ok());
  return response;
}

// Neither one that is away nor one that is full takes entries; of the second one is all else of
// use.
TEST_F(WatchTest, AnIndexThatTakesNoEntriesShowsInTheMetrics) {
  const auto shows = [this](const std::string& value) {
    metrics::Page page;
    server_->AddMetrics(page);
    return page.text().find("\nkerf_index_takes_commits " + value + "\n") != std::string::npos;
  };
  EXPECT_TRUE(shows("1"));
  index_.SetHealth({.status = absl::OkStatus(), .is_full = true});
  EXPECT_TRUE(shows("0"));
  EXPECT_EQ(HealthOf(*server_, channel_), 1) << "SERVING";
  index_.SetHealth({.status = absl::UnavailableError("Redis is away")});
  EXPECT_TRUE(shows("0"));
  index_.SetHealth({});
  EXPECT_TRUE(shows("1"));
}

TEST_F(WatchTest, HealthIsThatOfTheIndexUntilItDrains) {
  constexpr int kServing = 1;
  constexpr int kNotServing = 2;
  EXPECT_EQ(HealthOf(*server_, channel_), kServing);
  EXPECT_EQ(StatusOf(channel_).index().identity(), "");
  index_.SetHealth({absl::UnavailableError("Redis is away"), "an id"});
  EXPECT_EQ(HealthOf(*server_, channel_), kNotServing);
  v1::GetStatusResponse said = StatusOf(channel_);
  EXPECT_EQ(said.index().identity(), "an id");
  EXPECT_EQ(said.index().trouble(), "Redis is away");
  ASSERT_EQ(said.degradations_size(), 1);
  EXPECT_EQ(said.degradations(0), "Redis is away");
  // It still takes streams: who has nobody else waits here.
  TestUpload upload(channel_);
  upload.SendOpen(OpenFor("home"));
  EXPECT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  index_.SetHealth({absl::OkStatus(), "an id"});
  EXPECT_EQ(HealthOf(*server_, channel_), kServing);
  EXPECT_EQ(StatusOf(channel_).index().trouble(), "");
  // What it has gone through is told, and is no reason to go elsewhere.
  index_.SetHealth({.status = absl::OkStatus(), .findings = {"it was damaged"}});
  EXPECT_EQ(HealthOf(*server_, channel_), kServing);
  said = StatusOf(channel_);
  ASSERT_EQ(said.degradations_size(), 1);
  EXPECT_EQ(said.degradations(0), "it was damaged");
  // An index that comes back does not bring back who drains, nor is it why.
  index_.SetHealth({absl::UnavailableError("Redis is away"), "an id"});
  EXPECT_EQ(HealthOf(*server_, channel_), kNotServing);
  server_->BeginDrain(milliseconds(60'000));
  said = StatusOf(channel_);
  EXPECT_EQ(said.index().trouble(), "");
  EXPECT_TRUE(said.counts().draining());
  index_.SetHealth({absl::OkStatus(), "an id"});
  EXPECT_EQ(HealthOf(*server_, channel_), kNotServing);
}

}  // namespace
}  // namespace kerf
