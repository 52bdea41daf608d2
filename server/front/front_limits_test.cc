// Places and memory of a front, against clients and workers that hold on to them.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/units.h"
#include "grpcpp/generic/generic_stub.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "kerf/v1/routing.grpc.pb.h"
#include "server/edge/testing/test_upload.h"
#include "server/edge/testing/test_worker.h"
#include "server/front/front_server.h"
#include "server/front/testing/front_test.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class FrontLimitsTest : public FrontTest {
 protected:
  // An upload that was answered; null if it was refused.
  static std::unique_ptr<TestUpload> Open(const std::shared_ptr<grpc::Channel>& channel,
                                          const std::string& key = "") {
    auto upload = std::make_unique<TestUpload>(channel, /*read=*/true, key);
    upload->SendOpen(OpenFor("home"));
    const bool is_open = upload->WaitForAnswer(&v1::UploadAnswer::has_opened).has_value();
    return is_open ? std::move(upload) : nullptr;
  }
  static bool SendData(TestUpload& upload, const std::string& content) {
    return upload.SendFrame([&](v1::UploadFrame& frame) { frame.set_data(content); });
  }
  // Through whatever is stuck beside it.
  static void ExpectUploads(const std::shared_ptr<grpc::Channel>& channel, const std::string& key) {
    const v1::Open open = OpenFor("home");
    const std::string content = RandomContent(200'000);
    TestUpload upload(channel, /*read=*/true, key);
    EXPECT_TRUE(upload.SendOpen(open) && upload.SendFile(content, 20'000) &&
                upload.WaitForChunks(1, content.size()) && upload.CommitAnswered() &&
                upload.WaitForDone(1));
    upload.WritesDone();
    EXPECT_TRUE(upload.WaitForEnd().ok());
    EXPECT_EQ(upload.RecipeOf(1), PlainRecipe(content, open));
  }
  // That this worker has.
  std::string KeyOf(const std::string& address) {
    const auto stub = v1::RoutingService::NewStub(ConnectTo(front().addresses()[0]));
    for (int number = 0;; ++number) {
      v1::LocateRequest request;
      request.set_shard_key(Cat("key-", number));
      v1::LocateResponse place;
      grpc::ClientContext context;
      KERF_CHECK(stub->Locate(&context, request, &place).ok());
      if (place.address() == address) return request.shard_key();
    }
  }
};

// A call that says nothing, and keeps its place.
class SilentCall : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit SilentCall(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {
    stub_.PrepareBidiStreamingCall(&context_, "/kerf.v1.ChunkingService/GetCapabilities", {}, this);
    StartCall();
  }
  ~SilentCall() override {
    context_.TryCancel();
    status();
  }
  void OnDone(const grpc::Status& status) override { done_.set_value(status); }
  grpc::Status status() { return ended_.get(); }

 private:
  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  std::promise<grpc::Status> done_;
  std::shared_future<grpc::Status> ended_{done_.get_future()};
};

TEST_F(FrontLimitsTest, UploadsAndOtherCallsHavePlacesOfTheirOwn) {
  TestWorker worker(FreshSocketAddress(), "one");
  FrontOptions options = Options({worker.address()});
  options.max_streams = 2;
  options.max_calls = 2;
  const auto channel = StartAndConnect(options);
  const auto first = Open(channel);
  const auto second = Open(channel);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  {
    TestUpload refused(channel);
    EXPECT_EQ(ReasonOf(refused.WaitForEnd()), "TOO_MANY_STREAMS");
    const SilentCall one(channel);
    const SilentCall two(channel);
    ASSERT_TRUE(Eventually([&] { return front().call_count() == 2; }));
    SilentCall three(channel);
    EXPECT_EQ(ReasonOf(three.status()), "TOO_MANY_CALLS");
  }
  EXPECT_TRUE(Eventually([&] { return front().call_count() == 0; }));
  EXPECT_EQ(front().stream_count(), 2u);
  TestUpload bad(channel, /*read=*/true, std::string(200, 'k'));
  EXPECT_EQ(ReasonOf(bad.WaitForEnd()), "BAD_FIELD");
  EXPECT_EQ(front().stream_count(), 2u);
}

TEST_F(FrontLimitsTest, AnIdleUploadMakesRoom) {
  TestWorker worker(FreshSocketAddress(), "one");
  FrontOptions options = Options({worker.address()});
  options.max_streams = 2;
  options.idle_evict = milliseconds(100);
  const auto channel = StartAndConnect(options);
  const auto idle = Open(channel);
  const auto in_file = Open(channel);
  ASSERT_TRUE(idle != nullptr && in_file != nullptr);
  // Too little to be cut: the worker has nothing to say, and waits for more.
  ASSERT_TRUE(in_file->SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  ASSERT_TRUE(SendData(*in_file, "abc"));
  std::unique_ptr<TestUpload> next;
  ASSERT_TRUE(Eventually([&] { return (next = Open(channel)) != nullptr; }));
  const grpc::Status status = idle->WaitForEnd();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "IDLE_EVICTED");
  EXPECT_EQ(front().idle_evicted_count(), 1u);
  // The worker has lost it, too.
  EXPECT_TRUE(Eventually([&] { return worker.server().stream_count() == 2; }));
  // Whoever is in mid-file is not idle, and goes on.
  std::this_thread::sleep_for(2 * options.idle_evict);
  ASSERT_NE(Open(channel), nullptr);
  EXPECT_EQ(ReasonOf(next->WaitForEnd()), "IDLE_EVICTED");
  ASSERT_TRUE(in_file->SendFrame([](v1::UploadFrame& frame) {
    frame.mutable_file_end()->set_size_bytes(3);
    frame.mutable_file_end()->set_content_hash(ContentHashOf("abc"));
  }));
  EXPECT_TRUE(in_file->WaitForChunks(1, 3));
}

TEST_F(FrontLimitsTest, AnUploadThatKeepsItsPlaceIsNotIdle) {
  TestWorker worker(FreshSocketAddress(), "one");
  FrontOptions options = Options({worker.address()});
  // The front, which asks, ends after this function.
  const auto now_ms = std::make_shared<std::atomic<std::int64_t>>(1'000'000);
  options.clock = [now_ms] { return TimePoint(milliseconds(now_ms->load())); };
  options.max_streams = 1;
  const auto channel = StartAndConnect(options);
  const auto kept = Open(channel);
  ASSERT_NE(kept, nullptr);
  for (int count = 0; count < 5; ++count) {
    ASSERT_TRUE(kept->Send({}));
    // While it is on its way the upload is not idle in any case.
    std::this_thread::sleep_for(milliseconds(20));
    // Twice that is less than the time to be evicted, should the machine be slow.
    *now_ms += 14'000;
    EXPECT_EQ(Open(channel), nullptr) << count;
  }
  EXPECT_EQ(front().idle_evicted_count(), 0u);
  *now_ms += 31'000;
  EXPECT_TRUE(Eventually([&] { return Open(channel) != nullptr; }));
  EXPECT_EQ(ReasonOf(kept->WaitForEnd()), "IDLE_EVICTED");
}

TEST_F(FrontLimitsTest, AStuckWorkerTakesItsPlacesOnly) {
  std::atomic<bool> may_end{false};
  ScriptedWorker stuck([&](grpc::ServerContext& context, ScriptedWorker::Stream& /*stream*/) {
    while (!may_end && !context.IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
    return grpc::Status::OK;
  });
  TestWorker well(FreshSocketAddress(), "well");
  FrontOptions options = Options({stuck.address(), well.address()});
  options.max_streams = 4;
  options.workers.max_calls_per_worker = {3, 3};
  const auto channel = StartAndConnect(options);
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 2; }));
  const std::string stuck_key = KeyOf(stuck.address());
  std::vector<std::unique_ptr<TestUpload>> uploads;
  for (std::size_t count = 1; count <= 3; ++count) {
    uploads.push_back(std::make_unique<TestUpload>(channel, /*read=*/true, stuck_key));
    ASSERT_TRUE(Eventually([&] { return front().stream_count() == count; }));
  }
  TestUpload refused(channel, /*read=*/true, stuck_key);
  const grpc::Status status = refused.WaitForEnd();
  EXPECT_EQ(ReasonOf(status), "TOO_MANY_STREAMS");
  EXPECT_THAT(status.error_message(), HasSubstr(stuck.address()));
  ExpectUploads(channel, KeyOf(well.address()));
  may_end = true;
}

TEST_F(FrontLimitsTest, AnIdleUploadMakesRoomAtItsWorker) {
  TestWorker one(FreshSocketAddress(), "one");
  TestWorker two(FreshSocketAddress(), "two");
  FrontOptions options = Options({one.address(), two.address()});
  options.workers.max_calls_per_worker = {1, 1};
  options.idle_evict = milliseconds(100);
  const auto channel = StartAndConnect(options);
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 2; }));
  const auto elsewhere = Open(channel, KeyOf(two.address()));
  const std::string key = KeyOf(one.address());
  const auto idle = Open(channel, key);
  ASSERT_TRUE(elsewhere != nullptr && idle != nullptr);
  TestUpload refused(channel, /*read=*/true, key);
  EXPECT_EQ(ReasonOf(refused.WaitForEnd()), "TOO_MANY_STREAMS");
  ASSERT_TRUE(Eventually([&] { return Open(channel, key) != nullptr; }));
  EXPECT_EQ(ReasonOf(idle->WaitForEnd()), "IDLE_EVICTED");
  EXPECT_EQ(front().idle_evicted_count(), 1u);
}

// A worker that takes nothing until it may, then all, and says how much it was.
class LateReader {
 public:
  LateReader()
      : worker_([this](grpc::ServerContext& context, ScriptedWorker::Stream& stream) {
          while (!may_read_ && !context.IsCancelled()) {
            std::this_thread::sleep_for(milliseconds(1));
          }
          v1::UploadRequest request;
          std::size_t size_bytes = 0;
          while (stream.Read(&request)) {
            for (const v1::UploadFrame& frame : request.frames()) size_bytes += frame.data().size();
          }
          v1::UploadResponse response;
          response.add_answers()->mutable_opened()->set_worker(Cat(size_bytes));
          stream.Write(response);
          return grpc::Status::OK;
        }) {}
  ~LateReader() { Read(); }

  std::string address() const { return worker_.address(); }
  void Read() { may_read_ = true; }

 private:
  std::atomic<bool> may_read_{false};
  ScriptedWorker worker_;
};

// Sends so many messages, and says what it got for them.
class Sender {
 public:
  Sender(const std::shared_ptr<grpc::Channel>& channel, const std::string& key, int message_count,
         std::size_t message_bytes)
      : upload_(channel, /*read=*/true, key), thread_([=, this] {
          const std::string content(message_bytes, 'x');
          for (int count = 0; count < message_count; ++count) {
            if (!upload_.SendFrame([&](v1::UploadFrame& frame) { frame.set_data(content); })) break;
          }
          upload_.WritesDone();
        }) {}
  ~Sender() { thread_.join(); }

  // "OK", or why it has failed.
  std::string Outcome(std::size_t sent_bytes) {
    const grpc::Status status = upload_.WaitForEnd();
    if (!status.ok()) return ReasonOf(status);
    const auto answers = upload_.answers();
    const bool is_all = answers.size() == 1 && answers[0].opened().worker() == Cat(sent_bytes);
    return is_all ? "OK" : "lost bytes";
  }

 private:
  TestUpload upload_;
  std::thread thread_;
};

// Messages that fit into a share wait for as long as it takes, and cost nobody his stream.
TEST_F(FrontLimitsTest, StalledStreamsHoldTheirSharesAndLoseNothing) {
  constexpr int kStreams = 24;
  constexpr std::size_t kMessageBytes = 500'000;
  LateReader stuck;
  TestWorker well(FreshSocketAddress(), "well");
  FrontOptions options = Options({stuck.address(), well.address()});
  options.max_streams = 32;
  options.memory_bytes = 32 * kMiB;
  const auto channel = StartAndConnect(options);
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 2; }));
  const std::string key = KeyOf(stuck.address());
  std::vector<std::unique_ptr<Sender>> senders;
  senders.reserve(kStreams);
  for (int count = 0; count < kStreams; ++count) {
    senders.push_back(std::make_unique<Sender>(channel, key, 5, kMessageBytes));
  }
  // Each has one in its share, and some have read ahead.
  ASSERT_TRUE(Eventually([&] { return front().used_memory_bytes() >= kStreams * kMessageBytes; }));
  ExpectUploads(channel, KeyOf(well.address()));
  stuck.Read();
  for (const auto& sender : senders) EXPECT_EQ(sender->Outcome(5 * kMessageBytes), "OK");
  EXPECT_EQ(front().ended_for_memory_count(), 0u);
  EXPECT_LE(front().peak_memory_bytes(), options.memory_bytes * 3 / 4);
  EXPECT_TRUE(Eventually([&] { return front().used_memory_bytes() == 0; }));
}

// Messages that are larger than shares, more than there is memory for: whoever is ended learns why,
// the others lose nothing, and whoever sends small ones does not notice.
TEST_F(FrontLimitsTest, WhoHoldsTheMemoryIsEnded) {
  constexpr int kStreams = 12;
  constexpr std::size_t kMessageBytes = 1'000'000;
  LateReader stuck;
  TestWorker well(FreshSocketAddress(), "well");
  FrontOptions options = Options({stuck.address(), well.address()});
  // 64 KiB each.
  options.max_streams = 256;
  options.memory_bytes = 32 * kMiB;
  const auto channel = StartAndConnect(options);
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 2; }));
  const std::string key = KeyOf(stuck.address());
  std::vector<std::unique_ptr<Sender>> senders;
  senders.reserve(kStreams);
  for (int count = 0; count < kStreams; ++count) {
    senders.push_back(std::make_unique<Sender>(channel, key, 5, kMessageBytes));
  }
  // The pool has 4 MiB.
  ASSERT_TRUE(Eventually([&] { return front().ended_for_memory_count() >= kStreams - 5; }));
  ExpectUploads(channel, KeyOf(well.address()));
  stuck.Read();
  std::map<std::string, std::uint64_t> outcomes;
  for (const auto& sender : senders) ++outcomes[sender->Outcome(5 * kMessageBytes)];
  EXPECT_EQ(outcomes["MEMORY_EXHAUSTED"], front().ended_for_memory_count());
  EXPECT_EQ(outcomes["OK"] + outcomes["MEMORY_EXHAUSTED"], static_cast<std::uint64_t>(kStreams));
  EXPECT_GE(outcomes["OK"], 1u);
  EXPECT_LE(front().peak_memory_bytes(), options.memory_bytes * 3 / 4);
  EXPECT_TRUE(Eventually([&] { return front().used_memory_bytes() == 0; }));
}

// The same the other way: answers that nobody reads.
TEST_F(FrontLimitsTest, WhoDoesNotReadHoldsNoMemoryForLong) {
  constexpr int kStreams = 8;
  ScriptedWorker talker([&](grpc::ServerContext& /*context*/, ScriptedWorker::Stream& stream) {
    v1::UploadResponse response;
    response.add_answers()->mutable_opened()->set_backend(std::string(1'000'000, 'x'));
    while (stream.Write(response)) {
    }
    return grpc::Status::OK;
  });
  TestWorker well(FreshSocketAddress(), "well");
  FrontOptions options = Options({talker.address(), well.address()});
  options.memory_bytes = 32 * kMiB;
  options.watchdog_interval = milliseconds(20);
  const auto channel = StartAndConnect(options);
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 2; }));
  const std::string key = KeyOf(talker.address());
  std::vector<std::unique_ptr<TestUpload>> deaf;
  for (int count = 0; count < kStreams; ++count) {
    deaf.push_back(std::make_unique<TestUpload>(channel, /*read=*/false, key));
    ASSERT_TRUE(deaf.back()->Send({}));
  }
  // The pool for answers has 2 MiB.
  ASSERT_TRUE(Eventually([&] { return front().ended_for_memory_count() >= kStreams - 3; }));
  // They are gone though they read nothing at all, long before --write-stall-timeout-ms.
  ASSERT_TRUE(Eventually([&] { return front().stream_count() <= 3; }));
  EXPECT_TRUE(Eventually([&] { return front().used_memory_bytes() <= options.memory_bytes / 8; }));
  ExpectUploads(channel, KeyOf(well.address()));
}

TEST_F(FrontLimitsTest, OptionsMakeSense) {
  FrontOptions options = Options({"127.0.0.1:1"});
  options.memory_bytes = FrontServer::kMinMemoryBytes - 1;
  EXPECT_THAT(std::string(FrontServer::Start(options).status().message()),
              HasSubstr("at least 32.0 MiB"));
}

// Whether by a list or by a name: calls would go round until all places are taken.
TEST_F(FrontLimitsTest, AFrontIsNoWorker) {
  TestWorker worker(FreshSocketAddress(), "one");
  FrontOptions options = Options({worker.address()});
  options.workers.workers.push_back(*routing::ParseWorkerAddress(options.listen[0]));
  const auto channel = StartAndConnect(options);
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 1; }));
  // The front itself is asked again and again, and never lives.
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(front().live_worker_count(), 1u);
  ExpectUploads(channel, "any-key");
  // A front of nothing but this front.
  const auto outer = StartAndConnect(Options({options.listen[0]}));
  TestUpload refused(outer);
  const grpc::Status status = refused.WaitForEnd();
  EXPECT_EQ(ReasonOf(status), "NO_WORKER");
  EXPECT_THAT(status.error_message(), HasSubstr("this is a front, and the call comes from one"));
  // One that has become a front since it was asked.
  grpc::ClientContext context;
  context.AddMetadata("kerf-front", "1");
  v1::GetCapabilitiesResponse response;
  const grpc::Status behind =
      v1::ChunkingService::NewStub(channel)->GetCapabilities(&context, {}, &response);
  EXPECT_EQ(behind.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(behind), "FRONT_BEHIND_FRONT");
}

TEST_F(FrontLimitsTest, AWorkerThatSaysThatItDrainsIsAskedAtOnce) {
  TestWorker worker(FreshSocketAddress(), "one");
  FrontOptions options = Options({worker.address()});
  options.workers.check_times = {.interval = std::chrono::hours(1),
                                 .max_interval = std::chrono::hours(1)};
  const auto channel = StartAndConnect(options);
  ASSERT_EQ(front().live_worker_count(), 1u);
  worker.server().BeginDrain(milliseconds(60'000));
  TestUpload refused(channel);
  EXPECT_EQ(ReasonOf(refused.WaitForEnd()), "DRAINING");
  EXPECT_TRUE(Eventually([&] { return front().live_worker_count() == 0; }));
}

}  // namespace
}  // namespace kerf
