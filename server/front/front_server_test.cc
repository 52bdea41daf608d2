// A front between real clients and real workers, and workers that say what a test tells them to.
#include "server/front/front_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/unique_fd.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "kerf/v1/index.grpc.pb.h"
#include "kerf/v1/routing.grpc.pb.h"
#include "server/edge/testing/test_upload.h"
#include "server/edge/testing/test_worker.h"
#include "server/errors/errors.h"
#include "server/front/testing/front_test.h"
#include "server/net/grpc_status.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// A call as only a hostile client makes it: HTTP/2 by hand, with this header. What the front says
// to it, until it says nothing more.
std::string SendRawCall(const std::string& socket_path, const std::string& key,
                        const std::string& value) {
  const UniqueFd connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  KERF_CHECK(socket_path.size() < sizeof address.sun_path);
  socket_path.copy(address.sun_path, socket_path.size());
  KERF_CHECK(connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  // RFC 7541, 6.2.2: literals that are not indexed.
  std::string headers;
  const auto add = [&](std::string_view name, std::string_view text) {
    headers += '\0';
    for (const std::string_view part : {name, text}) {
      KERF_CHECK(part.size() < 127);
      headers += static_cast<char>(part.size());
      headers += part;
    }
  };
  add(":method", "POST");
  add(":scheme", "http");
  add(":path", "/kerf.v1.ChunkingService/GetCapabilities");
  add(":authority", "localhost");
  add("te", "trailers");
  add("content-type", "application/grpc");
  add(key, value);
  std::string sent("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  const auto frame = [&](char type, char flags, char stream, std::string_view payload) {
    KERF_CHECK(payload.size() < 256);
    const char head[] = {0, 0, static_cast<char>(payload.size()), type, flags, 0, 0, 0, stream};
    sent.append(head, sizeof head).append(payload);
  };
  constexpr char kData = 0, kHeaders = 1, kSettings = 4, kEndStream = 1, kEndHeaders = 4;
  frame(kSettings, 0, 0, "");
  frame(kHeaders, kEndHeaders, 1, headers);
  // An empty message.
  frame(kData, kEndStream, 1, std::string(5, '\0'));
  KERF_CHECK(write(connection.get(), sent.data(), sent.size()) ==
             static_cast<ssize_t>(sent.size()));
  std::string answer;
  pollfd ready{.fd = connection.get(), .events = POLLIN, .revents = 0};
  while (poll(&ready, 1, 500) > 0) {
    char bytes[4096];
    const ssize_t count = read(connection.get(), bytes, sizeof bytes);
    if (count <= 0) break;
    answer.append(bytes, static_cast<std::size_t>(count));
  }
  return answer;
}

class FrontServerTest : public FrontTest {};

TEST_F(FrontServerTest, AnUploadThroughAFrontIsAnUpload) {
  TestWorker worker(FreshSocketAddress(), "one");
  const auto channel = StartAndConnect(Options({worker.address()}));
  const v1::Open open = OpenFor("home");
  TestUpload upload(channel, /*read=*/true, "a-key");
  ASSERT_TRUE(upload.SendOpen(open));
  std::vector<std::string> files;
  for (const std::size_t size_bytes : {0u, 1u, 3'000'000u, 70'000u}) {
    files.push_back(RandomContent(size_bytes));
    ASSERT_TRUE(upload.SendFile(files.back(), 300'000));
  }
  ASSERT_TRUE(upload.WaitForChunks(4, files[3].size()));
  ASSERT_TRUE(upload.CommitAnswered());
  ASSERT_TRUE(upload.WaitForDone(files.size()));
  upload.WritesDone();
  EXPECT_TRUE(upload.WaitForEnd().ok());
  for (std::size_t index = 0; index < files.size(); ++index) {
    EXPECT_EQ(upload.RecipeOf(index + 1), PlainRecipe(files[index], open));
  }
  EXPECT_TRUE(Eventually([&] { return front().stream_count() == 0; }));
}

TEST_F(FrontServerTest, OtherCallsPassThroughWithTheirErrors) {
  TestWorker worker(FreshSocketAddress(), "one");
  const auto channel = StartAndConnect(Options({worker.address()}));
  v1::GetCapabilitiesResponse capabilities;
  grpc::ClientContext context;
  ASSERT_TRUE(
      v1::ChunkingService::NewStub(channel)->GetCapabilities(&context, {}, &capabilities).ok());
  EXPECT_EQ(capabilities.worker(), "one");
  grpc::ClientContext index_context;
  v1::GetIndexStatsResponse stats;
  const grpc::Status refused =
      v1::IndexService::NewStub(channel)->GetIndexStats(&index_context, {}, &stats);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(refused), "BAD_FIELD");
  // So do the errors of streams.
  TestUpload upload(channel);
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.set_data("too early"); }));
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "FRAME_ORDER");
}

TEST_F(FrontServerTest, TwoFrontsSendAKeyToOneWorker) {
  TestWorker one(FreshSocketAddress(), "one");
  TestWorker two(FreshSocketAddress(), "two");
  TestWorker three(FreshSocketAddress(), "three");
  const auto left = StartAndConnect(Options({one.address(), two.address(), three.address()}));
  const auto right = StartAndConnect(Options({three.address(), two.address(), one.address()}));
  std::set<std::string> met;
  const auto routing = v1::RoutingService::NewStub(right);
  for (int number = 0; number < 30; ++number) {
    const std::string key = Cat("file-", number);
    const std::string worker = WorkerOf(left, key);
    EXPECT_EQ(worker, WorkerOf(right, key));
    met.insert(worker);
    // Who would rather go straight there finds the same.
    v1::LocateRequest request;
    request.set_shard_key(key);
    v1::LocateResponse place;
    grpc::ClientContext context;
    ASSERT_TRUE(routing->Locate(&context, request, &place).ok());
    EXPECT_EQ(WorkerOf(ConnectTo(place.address()), key), worker);
  }
  EXPECT_EQ(met, (std::set<std::string>{"one", "two", "three"}));
}

TEST_F(FrontServerTest, WhoWatchesAWorkerMeetsItByItsName) {
  TestWorker one(FreshSocketAddress(), "one");
  TestWorker two(FreshSocketAddress(), "two");
  const std::string nobody = FreshSocketAddress();
  const auto channel = StartAndConnect(Options({one.address(), two.address(), nobody}));
  v1::ListWorkersResponse listed;
  grpc::ClientContext list_context;
  ASSERT_TRUE(v1::RoutingService::NewStub(channel)->ListWorkers(&list_context, {}, &listed).ok());
  ASSERT_EQ(listed.workers_size(), 3);
  std::set<std::string> met;
  for (const v1::WorkerState& worker : listed.workers()) {
    EXPECT_EQ(worker.lost().empty(), worker.address() != nobody) << worker.lost();
    grpc::ClientContext context;
    context.AddMetadata("kerf-worker-bin", worker.worker());
    // Which says where it would go otherwise.
    context.AddMetadata("kerf-shard-key", "a-key");
    v1::GetCapabilitiesResponse capabilities;
    const grpc::Status status =
        v1::ChunkingService::NewStub(channel)->GetCapabilities(&context, {}, &capabilities);
    if (worker.address() == nobody) {
      EXPECT_EQ(ReasonOf(status), "NO_WORKER");
    } else {
      EXPECT_TRUE(status.ok());
      EXPECT_EQ(capabilities.worker(), worker.address() == one.address() ? "one" : "two");
      met.insert(capabilities.worker());
    }
  }
  EXPECT_EQ(met, (std::set<std::string>{"one", "two"}));
  // Whom it asks for is not known: nobody answers in his place.
  grpc::ClientContext context;
  context.AddMetadata("kerf-worker-bin", "");
  v1::GetCapabilitiesResponse capabilities;
  EXPECT_EQ(
      ReasonOf(v1::ChunkingService::NewStub(channel)->GetCapabilities(&context, {}, &capabilities)),
      "NO_WORKER");
}

TEST_F(FrontServerTest, MetadataAndDeadlinePassThrough) {
  std::mutex mutex;
  std::multimap<std::string, std::string> seen;
  std::chrono::system_clock::time_point deadline;
  ScriptedWorker worker([&](grpc::ServerContext& context, ScriptedWorker::Stream& /*stream*/) {
    const std::lock_guard lock(mutex);
    for (const auto& [key, value] : context.client_metadata()) {
      seen.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
    }
    deadline = context.deadline();
    context.AddInitialMetadata("worker-says", "hello");
    context.AddTrailingMetadata("worker-says-last", "goodbye");
    context.AddTrailingMetadata("worker-bin", std::string("\0\xff", 2));
    return grpc::Status(grpc::StatusCode::ABORTED, "as the worker says", "details");
  });
  const auto channel = StartAndConnect(Options({worker.address()}));
  grpc::ClientContext context;
  context.AddMetadata("kerf-shard-key", "key");
  context.AddMetadata("authorization", "Bearer token");
  context.AddMetadata("kerf-request-id", "17");
  context.AddMetadata("twice", "a");
  context.AddMetadata("twice", "b");
  context.AddMetadata("some-bin", std::string("\0\x01", 2));
  const auto wanted = std::chrono::system_clock::now() + seconds(100);
  context.set_deadline(wanted);
  const auto stub = v1::ChunkingService::NewStub(channel);
  const auto stream = stub->Upload(&context);
  v1::UploadResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "as the worker says");
  EXPECT_EQ(status.error_details(), "details");
  EXPECT_EQ(context.GetServerInitialMetadata().count("worker-says"), 1u);
  EXPECT_EQ(context.GetServerTrailingMetadata().count("worker-says-last"), 1u);
  EXPECT_EQ(context.GetServerTrailingMetadata().find("worker-bin")->second,
            grpc::string_ref("\0\xff", 2));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(seen.find("kerf-shard-key")->second, "key");
  // In the clear: FrontAccessTest has the others.
  EXPECT_EQ(seen.count("authorization"), 0u);
  EXPECT_EQ(seen.find("kerf-request-id")->second, "17");
  EXPECT_EQ(seen.count("twice"), 2u);
  EXPECT_EQ(seen.find("some-bin")->second, std::string("\0\x01", 2));
  EXPECT_EQ(seen.count("user-agent"), 1u);
  EXPECT_LT(std::chrono::abs(deadline - wanted), seconds(5));
}

TEST_F(FrontServerTest, ACancelledCallIsCancelledAtTheWorker) {
  std::atomic<bool> has_begun{false};
  std::atomic<bool> was_cancelled{false};
  ScriptedWorker worker([&](grpc::ServerContext& context, ScriptedWorker::Stream& /*stream*/) {
    has_begun = true;
    while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
    was_cancelled = true;
    return grpc::Status::CANCELLED;
  });
  const auto channel = StartAndConnect(Options({worker.address()}));
  TestUpload upload(channel);
  ASSERT_TRUE(upload.Send({}));
  ASSERT_TRUE(Eventually([&] { return has_begun.load(); }));
  EXPECT_EQ(front().stream_count(), 1u);
  upload.Cancel();
  EXPECT_TRUE(Eventually([&] { return was_cancelled.load(); }));
  EXPECT_TRUE(Eventually([&] { return front().stream_count() == 0; }));
}

// The bytes that a front takes of a client whose worker does not read, and the other way, are
// bounded; when they read on, all is there, in order.
TEST_F(FrontServerTest, NobodyIsReadFasterThanTheOtherSideReads) {
  constexpr int kMessageCount = 300;
  constexpr std::size_t kMessageBytes = 1'000'000;
  // Windows and messages of both hops; a tenth of what is sent.
  constexpr int kMaxUnread = 30;
  std::atomic<bool> may_read{false};
  std::atomic<int> written_count{0};
  std::atomic<int> read_count{0};
  const std::string filling(kMessageBytes, 'x');
  ScriptedWorker worker([&](grpc::ServerContext& /*context*/, ScriptedWorker::Stream& stream) {
    while (!may_read) std::this_thread::sleep_for(milliseconds(1));
    v1::UploadRequest request;
    v1::UploadResponse response;
    while (stream.Read(&request)) {
      EXPECT_EQ(request.frames(0).open().store_epoch(), static_cast<std::uint64_t>(read_count));
      ++read_count;
    }
    for (int number = 0; number < kMessageCount; ++number) {
      response.Clear();
      v1::Opened& opened = *response.add_answers()->mutable_opened();
      opened.set_worker(Cat(number));
      opened.set_backend(filling);
      if (!stream.Write(response)) break;
      ++written_count;
    }
    return grpc::Status::OK;
  });
  FrontOptions options = Options({worker.address()});
  options.max_streams = 100;
  const auto channel = StartAndConnect(options);
  TestUpload upload(channel, /*read=*/false);
  std::atomic<int> sent_count{0};
  std::thread sender([&] {
    for (int number = 0; number < kMessageCount; ++number) {
      v1::UploadRequest request;
      v1::Open& open = *request.add_frames()->mutable_open();
      open.set_store_epoch(number);
      open.set_agent(filling);
      if (!upload.Send(request)) break;
      ++sent_count;
    }
    upload.WritesDone();
  });
  const auto settle = [](const std::atomic<int>& count) {
    for (int last = -1; count.load() == 0 || count.load() != last;) {
      last = count.load();
      std::this_thread::sleep_for(milliseconds(200));
    }
    return count.load();
  };
  EXPECT_LE(settle(sent_count), kMaxUnread);
  may_read = true;
  sender.join();
  EXPECT_EQ(sent_count, kMessageCount);
  EXPECT_LE(settle(written_count), kMaxUnread);
  EXPECT_EQ(read_count, kMessageCount);
  const grpc::Status status = upload.WaitForEnd();
  EXPECT_TRUE(status.ok()) << status.error_message();
  const std::vector<v1::UploadAnswer> answers = upload.answers();
  ASSERT_EQ(answers.size(), static_cast<std::size_t>(kMessageCount));
  for (int number = 0; number < kMessageCount; ++number) {
    EXPECT_EQ(answers[number].opened().worker(), Cat(number));
  }
}

TEST_F(FrontServerTest, AClientThatDoesNotReadIsEnded) {
  std::atomic<bool> was_ended{false};
  ScriptedWorker worker([&](grpc::ServerContext& /*context*/, ScriptedWorker::Stream& stream) {
    v1::UploadResponse response;
    response.add_answers()->mutable_opened()->set_backend(std::string(1'000'000, 'x'));
    while (stream.Write(response)) {
    }
    was_ended = true;
    return grpc::Status::OK;
  });
  FrontOptions options = Options({worker.address()});
  options.write_stall = milliseconds(300);
  options.watchdog_interval = milliseconds(20);
  const auto channel = StartAndConnect(options);
  TestUpload upload(channel, /*read=*/false);
  EXPECT_TRUE(Eventually([&] { return was_ended.load(); }));
  // It is cancelled if it still does not read.
  EXPECT_TRUE(Eventually([&] { return front().stream_count() == 0; }));
}

TEST_F(FrontServerTest, AWorkerThatDiesIsNamed) {
  auto worker = std::make_unique<ScriptedWorker>(
      [&](grpc::ServerContext& context, ScriptedWorker::Stream& stream) {
        stream.Write({});
        while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
        return grpc::Status::CANCELLED;
      });
  const std::string address = worker->address();
  const auto channel = StartAndConnect(Options({address}));
  TestUpload upload(channel);
  ASSERT_TRUE(upload.Send({}));
  ASSERT_TRUE(Eventually([&] { return front().stream_count() == 1; }));
  worker.reset();
  const grpc::Status status = upload.WaitForEnd();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "WORKER_UNREACHABLE");
  EXPECT_THAT(status.error_message(), HasSubstr(address));
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 0; }));
  TestUpload refused(channel);
  const grpc::Status none = refused.WaitForEnd();
  EXPECT_EQ(none.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(none), "NO_WORKER");
  EXPECT_THAT(none.error_message(), HasSubstr(address));
}

TEST_F(FrontServerTest, TheNextStreamGoesToAnotherWorker) {
  TestWorker one(FreshSocketAddress(), "one");
  auto two = std::make_unique<TestWorker>(FreshSocketAddress(), "two");
  const auto channel = StartAndConnect(Options({one.address(), two->address()}));
  std::string key;
  for (int number = 0; key.empty(); ++number) {
    if (WorkerOf(channel, Cat("key-", number)) == "two") key = Cat("key-", number);
  }
  TestUpload upload(channel, /*read=*/true, key);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  two.reset();
  // In band, or by losing the worker: either way it is told to come again.
  EXPECT_EQ(upload.WaitForEnd().error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 1; }));
  EXPECT_EQ(WorkerOf(channel, key), "one");
}

// Its health says that it has lost its index, and the other one has its own.
TEST_F(FrontServerTest, AnUploadWhoseWorkerLosesItsIndexGoesOnElsewhere) {
  TestWorker one(FreshSocketAddress(), "one");
  TestWorker two(FreshSocketAddress(), "two");
  FrontOptions options = Options({one.address(), two.address()});
  options.workers.unused_grace = milliseconds(50);
  const auto channel = StartAndConnect(options);
  std::string key;
  for (int number = 0; key.empty(); ++number) {
    if (WorkerOf(channel, Cat("key-", number)) == "two") key = Cat("key-", number);
  }
  TestUpload upload(channel, /*read=*/true, key);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  two.SetIndexHealth({absl::UnavailableError("Redis is away"), ""});
  const grpc::Status status = upload.WaitForEnd();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "INDEX_UNAVAILABLE");
  EXPECT_THAT(status.error_message(), HasSubstr("Redis is away"));
  EXPECT_EQ(WorkerOf(channel, key), "one");
  // Both: streams are opened all the same, where they always were, and stay open.
  one.SetIndexHealth({absl::UnavailableError("Redis is away"), ""});
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 2; }));
  EXPECT_EQ(HealthOf(channel), 1);
  TestUpload waiting(channel, /*read=*/true, key);
  ASSERT_TRUE(waiting.SendOpen(OpenFor("home")));
  const auto opened = waiting.WaitForAnswer(&v1::UploadAnswer::has_opened);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(opened->opened().worker(), "two");
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(front().stream_count(), 1u);
}

// Its health is well, and its calls say that it has no index.
TEST_F(FrontServerTest, WorkersWhoseCallsFailAreDoneWithout) {
  ScriptedWorker failing([](grpc::ServerContext& /*context*/, ScriptedWorker::Stream& /*stream*/) {
    return ToGrpcStatus(MakeError(Reason::kIndexUnavailable, "the index does not answer"));
  });
  TestWorker well(FreshSocketAddress(), "well");
  const auto channel = StartAndConnect(Options({failing.address(), well.address()}));
  std::string key;
  int failed_count = 0;
  for (int number = 0; key.empty(); ++number) {
    if (WorkerOf(channel, Cat("key-", number)) == "well") continue;
    key = Cat("key-", number);
    ++failed_count;
  }
  // Who says so meets another one at once.
  grpc::ClientContext context;
  context.AddMetadata("kerf-shard-key", key);
  context.AddMetadata("kerf-avoid-worker-bin", "nobody");
  context.AddMetadata("kerf-avoid-worker-bin", failing.address());
  v1::GetCapabilitiesResponse capabilities;
  ASSERT_TRUE(
      v1::ChunkingService::NewStub(channel)->GetCapabilities(&context, {}, &capabilities).ok());
  EXPECT_EQ(capabilities.worker(), "well");
  v1::LocateRequest request;
  request.set_shard_key(key);
  request.add_avoid(failing.address());
  v1::LocateResponse place;
  grpc::ClientContext locating;
  ASSERT_TRUE(v1::RoutingService::NewStub(channel)->Locate(&locating, request, &place).ok());
  EXPECT_EQ(place.address(), well.address());
  // And the others do when some have failed.
  while (WorkerOf(channel, key) != "well") ASSERT_LT(++failed_count, 100);
  EXPECT_GE(failed_count, 3);
  EXPECT_EQ(front().live_worker_count(), 1u);
}

TEST_F(FrontServerTest, ADrainTellsStreamsInBand) {
  TestWorker worker(FreshSocketAddress(), "one");
  const auto channel = StartAndConnect(Options({worker.address()}));
  EXPECT_EQ(HealthOf(channel), grpc::health::v1::HealthCheckResponse::SERVING);
  const v1::Open open = OpenFor("home");
  const std::string content = RandomContent(1'000'000);
  TestUpload upload(channel);
  ASSERT_TRUE(upload.SendOpen(open));
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  ASSERT_TRUE(upload.SendFrame([&](v1::UploadFrame& frame) { frame.set_data(content); }));
  TestUpload unopened(channel);
  ASSERT_TRUE(unopened.Send({}));
  ASSERT_TRUE(Eventually([&] { return front().stream_count() == 2; }));
  ASSERT_TRUE(upload.WaitForChunks(1, 500'000));
  front().BeginDrain(milliseconds(60'000));
  const auto go_away = upload.WaitForAnswer(&v1::UploadAnswer::has_go_away);
  ASSERT_TRUE(go_away.has_value());
  EXPECT_EQ(go_away->go_away().drain_ms(), 60'000u);
  EXPECT_EQ(ReasonOf(unopened.WaitForEnd()), "DRAINING");
  EXPECT_EQ(HealthOf(channel), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  {
    TestUpload refused(channel);
    EXPECT_EQ(ReasonOf(refused.WaitForEnd()), "DRAINING");
  }
  // Commits are still taken.
  ASSERT_TRUE(upload.CommitAnswered());
  const auto committed = upload.WaitForAnswer(&v1::UploadAnswer::has_committed);
  ASSERT_TRUE(committed.has_value());
  // All that was answered before GoAway.
  EXPECT_EQ(committed->committed().files(0).durable_offset(),
            upload.ChunksOf(1).back().end_offset());
  upload.WritesDone();
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "DRAINING");
  EXPECT_TRUE(Eventually([&] { return front().stream_count() == 0; }));
  // The worker itself goes on.
  EXPECT_EQ(WorkerOf(ConnectTo(worker.address()), "key"), "one");
}

// The worker may be of another release than the one that was asked what it knows (PRO-95).
TEST_F(FrontServerTest, ADrainThatIsPassedOverDoesNoHarm) {
  std::mutex mutex;
  std::vector<v1::UploadRequest> received;
  ScriptedWorker worker([&](grpc::ServerContext& /*context*/, ScriptedWorker::Stream& stream) {
    v1::UploadRequest request;
    while (stream.Read(&request)) {
      const std::lock_guard lock(mutex);
      received.push_back(request);
    }
    return grpc::Status::OK;
  });
  const auto has_received = [&](std::size_t count) {
    return Eventually([&] {
      const std::lock_guard lock(mutex);
      return received.size() == count;
    });
  };
  const auto channel = StartAndConnect(Options({worker.address()}));
  TestUpload upload(channel);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  ASSERT_TRUE(has_received(2));
  front().BeginDrain(milliseconds(60'000));
  ASSERT_TRUE(has_received(3));
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.set_data("goes on"); }));
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_end(); }));
  upload.WritesDone();
  EXPECT_TRUE(upload.WaitForEnd().ok());
  const std::lock_guard lock(mutex);
  std::vector<v1::UploadFrame::FrameCase> kinds;
  for (const v1::UploadRequest& request : received) {
    ASSERT_EQ(request.frames_size(), 1);
    kinds.push_back(request.frames(0).frame_case());
  }
  EXPECT_THAT(kinds, testing::ElementsAre(v1::UploadFrame::kOpen, v1::UploadFrame::kFileBegin,
                                          v1::UploadFrame::kDrain, v1::UploadFrame::kData,
                                          v1::UploadFrame::kFileEnd));
}

TEST_F(FrontServerTest, StopEndsWhatIsOpen) {
  TestWorker worker(FreshSocketAddress(), "one");
  const auto channel = StartAndConnect(Options({worker.address()}));
  TestUpload upload(channel);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  front().Stop();
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "DRAINING");
  EXPECT_EQ(front().stream_count(), 0u);
  // The worker has no stream left of it.
  EXPECT_TRUE(Eventually([&] { return worker.server().stream_count() == 0; }));
}

TEST_F(FrontServerTest, HealthIsThatOfTheWorkers) {
  const std::string address = FreshSocketAddress();
  const auto channel = StartAndConnect(Options({address}));
  EXPECT_EQ(HealthOf(channel), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  auto worker = std::make_unique<TestWorker>(address, "one");
  EXPECT_TRUE(Eventually(
      [&] { return HealthOf(channel) == grpc::health::v1::HealthCheckResponse::SERVING; }));
  // So is each service, those of workers too: a client asks a front as it asks kerfd.
  const std::vector<std::string> services = {"kerf.v1.RoutingService", "kerf.v1.ChunkingService",
                                             "kerf.v1.IndexService", "kerf.v1.RepositoryService",
                                             "kerf.v1.StatusService"};
  for (const std::string& service : services) {
    EXPECT_EQ(HealthOf(channel, service), grpc::health::v1::HealthCheckResponse::SERVING);
  }
  worker.reset();
  EXPECT_TRUE(Eventually(
      [&] { return HealthOf(channel) == grpc::health::v1::HealthCheckResponse::NOT_SERVING; }));
  for (const std::string& service : services) {
    EXPECT_EQ(HealthOf(channel, service), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  }
}

TEST_F(FrontServerTest, WhatIsOfGrpcIsNotPassedOn) {
  // Nobody is there.
  const auto channel = StartAndConnect(Options({FreshSocketAddress()}));
  EXPECT_EQ(ReasonOf(CallUnary(channel, "/kerf.v1.ChunkingService/OfALaterVersion")), "NO_WORKER");
  // A later version of reflection, of which a client goes back to the one that there is.
  for (const char* const method : {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                                   "/grpc.health.v1.Health/OfALaterVersion"}) {
    const grpc::Status status = CallUnary(channel, method);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
    EXPECT_TRUE(status.error_details().empty());
  }
}

// Clients and workers that come and go while others use them.
TEST_F(FrontServerTest, ChurnLeavesNothingBehind) {
  TestWorker one(FreshSocketAddress(), "one");
  const std::string address = FreshSocketAddress();
  auto two = std::make_unique<TestWorker>(address, "two");
  const std::string front_address = Start(Options({one.address(), address})).addresses()[0];
  const std::uint64_t seed = TestSeed();
  std::vector<std::thread> clients;
  clients.reserve(4);
  std::atomic<int> done_count{0};
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      Random random(seed + client);
      const auto channel = ConnectTo(front_address);
      for (int round = 0; round < 25; ++round) {
        TestUpload upload(channel, /*read=*/true, Cat("key-", random.Below(50)));
        const std::string content(random.Below(400'000), 'c');
        if (!upload.SendOpen(OpenFor("home")) || !upload.SendFile(content, 50'000)) continue;
        if (random.OneIn(3)) continue;
        upload.WaitForChunks(1, content.size());
        upload.CommitAnswered();
        if (upload.WaitForDone(1)) ++done_count;
        if (random.OneIn(3)) continue;
        upload.WritesDone();
        upload.WaitForEnd();
      }
    });
  }
  for (int restart = 0; restart < 3; ++restart) {
    two.reset();
    two = std::make_unique<TestWorker>(address, "two");
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(done_count, 0);
  EXPECT_TRUE(Eventually([&] { return front().stream_count() == 0; }));
  EXPECT_TRUE(Eventually([&] { return one.server().stream_count() == 0; }));
}

// gRPC takes them from a client, and would end a process that sends them on.
// The front has one connection to the worker for all: what ended it would end them all.
TEST_F(FrontServerTest, MetadataBeyondItsBoundCostsThatCallAlone) {
  TestWorker worker(FreshSocketAddress(), "one");
  const auto channel = StartAndConnect(Options({worker.address()}));
  TestUpload upload(channel, /*read=*/true, "a-key");
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.SendFile(RandomContent(100'000), 50'000));
  const auto stub = v1::IndexService::NewStub(channel);
  for (const std::size_t size_bytes : {6'000u, 7'700u, 15'000u}) {
    grpc::ClientContext context;
    context.AddMetadata("x", std::string(size_bytes, 'x'));
    v1::GetIndexStatsResponse response;
    EXPECT_EQ(stub->GetIndexStats(&context, {}, &response).error_code() ==
                  grpc::StatusCode::RESOURCE_EXHAUSTED,
              size_bytes > 7 * 1024)
        << size_bytes;
  }
  ASSERT_TRUE(upload.SendFile(RandomContent(100'000), 50'000));
  ASSERT_TRUE(upload.WaitForChunks(2, 100'000));
  ASSERT_TRUE(upload.CommitAnswered());
  EXPECT_TRUE(upload.WaitForDone(2));
  upload.WritesDone();
  EXPECT_TRUE(upload.WaitForEnd().ok());
}

TEST_F(FrontServerTest, HeadersThatNobodyMaySendAreNotSentOn) {
  TestWorker worker(FreshSocketAddress(), "one");
  const auto channel = StartAndConnect(Options({worker.address()}));
  ASSERT_TRUE(Eventually([&] { return front().live_worker_count() == 1; }));
  const std::string path = front().addresses()[0].substr(std::string("unix:").size());
  const std::pair<std::string, std::string> headers[] = {
      {"x-name", "caf\xc3\xa9"}, {"x-name", "a\nb"}, {"X-Upper", "a"}, {"x name", "a"}, {"", "a"},
      {"x-name-bin", "\xff"},    {"x-name", "fine"}};
  for (const auto& [key, value] : headers) {
    EXPECT_NE(SendRawCall(path, key, value), "") << key;
    EXPECT_EQ(WorkerOf(channel, "a-key"), "one") << key;
  }
}

}  // namespace
}  // namespace kerf
