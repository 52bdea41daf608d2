// Clients that lie, babble, stall, or are too many, and an index that hangs: each call ends with a
// clear status, memory stays bounded, and others are served meanwhile.
#include <gmock/gmock.h>
#include <grpcpp/impl/codegen/rpc_method.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/forwarding_index.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

// Small chunks, so that little data makes many answers.
constexpr const char* kSmallChunks = "fastcdc2020:min=512,avg=2048,max=8192,level=1";

std::string RandomContent(std::size_t size_bytes, std::uint64_t seed) {
  std::string content(size_bytes, '\0');
  Random(seed).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  return content;
}

// Sends the messages as they are.
grpc::Status SendRaw(const std::shared_ptr<grpc::Channel>& channel,
                     const std::vector<std::string>& messages) {
  const grpc::internal::RpcMethod method("/kerf.v1.ChunkingService/Upload",
                                         grpc::internal::RpcMethod::BIDI_STREAMING, channel);
  grpc::ClientContext context;
  const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel.get(), method, &context));
  for (const std::string& message : messages) {
    const grpc::Slice slice(message);
    if (!stream->Write(grpc::ByteBuffer(&slice, 1))) break;
  }
  stream->WritesDone();
  grpc::ByteBuffer answer;
  while (stream->Read(&answer)) {
  }
  return stream->Finish();
}

class HostileTest : public testing::Test {
 protected:
  void Start() {
    options_.listen = {FreshSocketAddress()};
    options_.worker_threads = 2;
    options_.watchdog_interval = milliseconds(0);
    options_.clock = [this] { return TimePoint(milliseconds(now_ms_.load())); };
    auto server = Server::Start(options_, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = Connect();
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
  }

  std::shared_ptr<grpc::Channel> Connect() { return ConnectTo(server_->addresses()[0]); }

  // Lets the time pass in steps until the server has ended `count` streams for it, and no further:
  // later it would cancel them. False after half a minute of the real time.
  [[nodiscard]] bool PassTimeUntilEnded(std::size_t count, std::int64_t step_ms) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (std::size_t ended_count = 0; ended_count < count;) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      now_ms_ += step_ms;
      ended_count += server_->CheckTimeouts();
      std::this_thread::yield();
    }
    return true;
  }

  // A whole upload of a client that behaves.
  void ExpectServed() {
    TestUpload upload(Connect());
    const std::string content = RandomContent(100'000, 1);
    const v1::Open open = OpenFor("innocent");
    ASSERT_TRUE(upload.SendOpen(open));
    ASSERT_TRUE(upload.SendFile(content, 10'000));
    upload.WritesDone();
    const grpc::Status status = upload.WaitForEnd();
    EXPECT_TRUE(status.ok()) << ReasonOf(status) << ": " << status.error_message();
    EXPECT_EQ(upload.RecipeOf(1), PlainRecipe(content, open));
  }

  std::string ReasonAfter(const std::vector<v1::UploadRequest>& requests) {
    TestUpload upload(channel_);
    for (const v1::UploadRequest& request : requests) {
      if (!upload.Send(request)) break;
    }
    upload.WritesDone();
    const grpc::Status status = upload.WaitForEnd();
    return status.ok() ? "OK" : ReasonOf(status);
  }

  ServerOptions options_;
  std::atomic<std::int64_t> now_ms_{1'000'000};
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// An index that answers lookups, scans and statistics only while its gate is open.
class GatedIndex final : public ForwardingIndex {
 public:
  GatedIndex() : ForwardingIndex(CreateMemoryIndex()) {}

  void SetOpen(bool is_open) {
    const std::lock_guard lock(mutex_);
    is_open_ = is_open;
    changed_.notify_all();
  }
  void WaitForBlocked(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return blocked_count_ >= count; });
  }

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    PassGate();
    return ForwardingIndex::Lookup(repository, session_epoch, digests, results);
  }
  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override {
    PassGate();
    return ForwardingIndex::Scan(repository, after, limit);
  }
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override {
    PassGate();
    return ForwardingIndex::Stats(repository);
  }

 private:
  void PassGate() {
    std::unique_lock lock(mutex_);
    ++blocked_count_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
    --blocked_count_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int blocked_count_ = 0;
};

class HangingIndexTest : public HostileTest {
 protected:
  HangingIndexTest() {
    auto gated = std::make_unique<GatedIndex>();
    gate_ = gated.get();
    index_ = std::move(gated);
    // Only the index is slow here.
    options_.timeouts.open = std::chrono::hours(24);
    options_.timeouts.idle = std::chrono::hours(24);
    options_.timeouts.write_stall = std::chrono::hours(24);
  }

  std::string ReasonOfStats() {
    v1::GetIndexStatsRequest request;
    request.mutable_repository()->set_repository("home");
    request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    v1::GetIndexStatsResponse response;
    grpc::ClientContext context;
    const auto stub = v1::IndexService::NewStub(channel_);
    const grpc::Status status = stub->GetIndexStats(&context, request, &response);
    return status.ok() ? "OK" : ReasonOf(status);
  }

  GatedIndex* gate_ = nullptr;
};

v1::UploadRequest Opening() {
  v1::UploadRequest request;
  *request.add_frames()->mutable_open() = OpenFor("home");
  return request;
}

TEST_F(HostileTest, LiesAreAnsweredWithTheirReason) {
  options_.stream_memory_bytes = 4 * kMiB;
  Start();
  v1::UploadRequest request = Opening();
  request.add_frames()->mutable_file_begin();
  request.add_frames()->set_data("twelve bytes");
  v1::FileEnd* end = request.add_frames()->mutable_file_end();
  end->set_size_bytes(12);
  end->set_content_hash(ContentHashOf("twelve bytes"));
  EXPECT_EQ(ReasonAfter({request}), "OK");
  end->set_size_bytes(13);
  EXPECT_EQ(ReasonAfter({request}), "SIZE_MISMATCH");
  end->set_size_bytes(12);
  end->set_content_hash(ContentHashOf("other bytes!"));
  EXPECT_EQ(ReasonAfter({request}), "CONTENT_MISMATCH");
  request.mutable_frames()->RemoveLast();
  EXPECT_EQ(ReasonAfter({request}), "UNFINISHED_FILE");
  request.mutable_frames(1)->mutable_file_begin()->set_start_offset(~std::uint64_t{0});
  EXPECT_EQ(ReasonAfter({request}), "OFFSET_TOO_LARGE");
  EXPECT_EQ(ReasonAfter({}), "FRAME_ORDER");
  EXPECT_EQ(ReasonAfter({Opening(), Opening()}), "FRAME_ORDER");
  request = Opening();
  request.add_frames();
  EXPECT_EQ(ReasonAfter({request}), "MALFORMED_MESSAGE");
  request = Opening();
  request.mutable_frames(0)->mutable_open()->set_profile(
      "fastcdc2020:min=65536,avg=1048576,max=4194304,level=1");
  EXPECT_EQ(ReasonAfter({request}), "PROFILE_TOO_LARGE");
  request = Opening();
  request.add_frames()->mutable_file_begin();
  request.add_frames()->set_data(std::string(4u << 20, 'x'));
  EXPECT_EQ(ReasonAfter({request}), "MESSAGE_TOO_LARGE");
  // Far above the limit it is gRPC that ends the stream.
  request.mutable_frames(2)->set_data(std::string(5u << 20, 'x'));
  EXPECT_EQ(SendRaw(channel_, {request.SerializeAsString()}).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectServed();
}

TEST_F(HostileTest, ForeignDigestsAreNotCommitted) {
  Start();
  v1::UploadRequest request = Opening();
  v1::CommitEntry* entry = request.add_frames()->mutable_commit()->add_entries();
  entry->set_digest(std::string(32, 'f'));
  entry->set_locator("nowhere");
  EXPECT_EQ(ReasonAfter({request}), "UNKNOWN_DIGEST");
  EXPECT_EQ(WaitFor(index_->Stats({"home", DigestAlgorithm::kBlake3}))->entry_count, 0u);
}

TEST_F(HostileTest, GarbageEndsWithAReason) {
  Start();
  Random random(TestSeed());
  v1::UploadRequest request = Opening();
  for (int file = 0; file < 3; ++file) {
    request.add_frames()->mutable_file_begin()->set_file_key("key");
    request.add_frames()->set_data("some data");
    v1::FileEnd* end = request.add_frames()->mutable_file_end();
    end->set_size_bytes(9);
    end->set_content_hash(ContentHashOf("some data"));
  }
  const std::string valid = request.SerializeAsString();
  for (int round = 0; round < 200; ++round) {
    std::string message = valid;
    if (random.OneIn(3)) {
      message = RandomContent(random.Below(300), random.Next());
    } else if (random.OneIn(2)) {
      message.resize(random.Below(message.size()));
    } else {
      for (std::uint64_t flips = random.Between(1, 4); flips > 0; --flips) {
        message[random.Below(message.size())] ^= static_cast<char>(1u << random.Below(8));
      }
    }
    const grpc::Status status = SendRaw(channel_, {message, message});
    ASSERT_FALSE(status.ok());
    const std::string reason = ReasonOf(status);
    ASSERT_TRUE(reason.find(' ') == std::string::npos) << reason;
    ASSERT_NE(reason, "INTERNAL") << status.error_message();
  }
  ExpectServed();
}

TEST_F(HostileTest, WhoNeverReadsIsEndedAndOthersAreServed) {
  options_.memory_bytes = 64 * kMiB;
  options_.stream_memory_bytes = 8 * kMiB;
  // The clock of this test runs ahead of the writer, and of the server's threads.
  options_.timeouts.index = std::chrono::hours(24);
  options_.timeouts.idle = std::chrono::hours(24);
  options_.timeouts.open = std::chrono::hours(24);
  Start();
  const std::string content = RandomContent(1'000'000, TestSeed());
  TestUpload upload(channel_, /*read=*/false);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home", kSmallChunks)));
  std::atomic<int> sent_count{0};
  std::thread writer([&] {
    while (upload.SendFile(content, 500'000)) ++sent_count;
  });
  // 500 bytes of answers for each 10 kB: the window and the answer budget fill, and then everything
  // stops. Here is only waited for that; if it is called too early, the server still has no write
  // to end, or one that this client will never read.
  for (int last_count = -1; sent_count.load() == 0 || sent_count.load() != last_count;) {
    last_count = sent_count.load();
    std::this_thread::sleep_for(milliseconds(100));
  }
  ASSERT_TRUE(PassTimeUntilEnded(1, options_.timeouts.write_stall.count()));
  while (server_->used_memory_bytes() > 0) std::this_thread::yield();
  EXPECT_LE(server_->peak_memory_bytes(), options_.memory_bytes);
  ExpectServed();
  const grpc::Status status = upload.WaitForEnd();
  writer.join();
  // It never came near the limit of uncommitted chunks, which 130 MB would reach.
  EXPECT_LT(sent_count.load(), 40);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  EXPECT_EQ(ReasonOf(status), "READ_STALLED");
}

TEST_F(HostileTest, WhoReadsSlowlyGetsEverything) {
  options_.memory_bytes = 64 * kMiB;
  options_.stream_memory_bytes = 8 * kMiB;
  // The Open may still be on its way when the time passes.
  options_.timeouts.open = std::chrono::hours(24);
  Start();
  const std::string content = RandomContent(8'000'000, TestSeed());
  const v1::Open open = OpenFor("home", kSmallChunks);
  TestUpload upload(channel_, /*read=*/false);
  ASSERT_TRUE(upload.SendOpen(open));
  std::thread writer([&] {
    EXPECT_TRUE(upload.SendFile(content, 100'000));
    upload.WritesDone();
  });
  // Long, but less than the timeout: nothing is ended.
  for (int look = 0; look < 50; ++look) {
    now_ms_ += options_.timeouts.write_stall.count() / 100;
    server_->CheckTimeouts();
    std::this_thread::sleep_for(milliseconds(1));
  }
  const grpc::Status status = upload.WaitForEnd();
  writer.join();
  EXPECT_TRUE(status.ok()) << ReasonOf(status);
  EXPECT_EQ(upload.RecipeOf(1), PlainRecipe(content, open));
}

TEST_F(HostileTest, SilenceEndsAStreamWhereItIsWaitedFor) {
  Start();
  TestUpload unopened(channel_);
  TestUpload in_file(channel_);
  TestUpload between_files(channel_);
  ASSERT_TRUE(between_files.SendOpen(OpenFor("home")));
  ASSERT_TRUE(in_file.SendOpen(OpenFor("home")));
  ASSERT_TRUE(in_file.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  const auto opened = [](const std::vector<v1::UploadAnswer>& answers) { return !answers.empty(); };
  ASSERT_TRUE(between_files.WaitFor(opened));
  ASSERT_TRUE(in_file.WaitFor(opened));
  ASSERT_TRUE(PassTimeUntilEnded(2, 1'000));
  EXPECT_EQ(ReasonOf(unopened.WaitForEnd()), "OPEN_TIMEOUT");
  EXPECT_EQ(ReasonOf(in_file.WaitForEnd()), "IDLE_TIMEOUT");
  // A metadata stream stays open for hours.
  ASSERT_TRUE(between_files.SendFile("still there"));
  between_files.WritesDone();
  EXPECT_TRUE(between_files.WaitForEnd().ok());
}

TEST_F(HostileTest, BabbleIsNoOpen) {
  // Its time passes while a busy machine gives it no thread: that is not what is asked here.
  options_.timeouts.index = std::chrono::hours(1'000);
  Start();
  TestUpload upload(channel_);
  v1::UploadRequest babble;
  babble.GetReflection()->MutableUnknownFields(&babble)->AddVarint(1000, 1);
  std::thread writer([&] {
    while (upload.Send(babble)) {
    }
  });
  // The watchdog sees a message more at each look.
  EXPECT_TRUE(PassTimeUntilEnded(1, 10));
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "OPEN_TIMEOUT");
  writer.join();
}

TEST_F(HostileTest, IdleStreamsMakeRoomForOthers) {
  options_.max_streams = 3;
  Start();
  const auto opened = [](const std::vector<v1::UploadAnswer>& answers) { return !answers.empty(); };
  const auto open = [&] {
    auto upload = std::make_unique<TestUpload>(Connect());
    // If the server has no place, the stream may have ended already.
    upload->SendOpen(OpenFor("home"));
    return upload->WaitFor(opened) ? std::move(upload) : nullptr;
  };
  // The server may learn a moment later than its client that the last write is done.
  const auto open_soon = [&] {
    for (int tries = 0; tries < 200; ++tries, now_ms_ += 100) {
      if (auto upload = open(); upload != nullptr) return upload;
    }
    ADD_FAILURE() << "nobody had to make room";
    return open();
  };
  const auto expect_evicted = [](TestUpload& upload) {
    const grpc::Status status = upload.WaitForEnd();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(status), "IDLE_EVICTED") << status.error_message();
  };
  const auto older = open();
  now_ms_ += milliseconds(std::chrono::hours(1)).count();
  const auto newer = open();
  const auto in_file = open();
  ASSERT_TRUE(older != nullptr && newer != nullptr && in_file != nullptr);
  ASSERT_TRUE(in_file->SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  const std::string content = RandomContent(200'000, TestSeed());
  ASSERT_TRUE(in_file->SendFrame([&](v1::UploadFrame& frame) { frame.set_data(content); }));
  // Until the server has seen that a file has begun, the stream is an idle one.
  ASSERT_TRUE(in_file->WaitForChunks(1, 1));

  const auto first = open_soon();
  ASSERT_NE(first, nullptr);
  expect_evicted(*older);
  EXPECT_EQ(open(), nullptr) << "nobody is idle for long enough";
  now_ms_ += milliseconds(std::chrono::hours(1)).count();
  const auto second = open_soon();
  const auto third = open_soon();
  ASSERT_TRUE(second != nullptr && third != nullptr);
  expect_evicted(*newer);
  expect_evicted(*first);
  EXPECT_EQ(open(), nullptr) << "a stream in a file is not idle";
  ASSERT_TRUE(in_file->SendFrame([&](v1::UploadFrame& frame) {
    frame.mutable_file_end()->set_size_bytes(content.size());
    frame.mutable_file_end()->set_content_hash(ContentHashOf(content));
  }));
  for (TestUpload* upload : {in_file.get(), second.get(), third.get()}) {
    upload->WritesDone();
    EXPECT_TRUE(upload->WaitForEnd().ok());
  }
}

TEST_F(HostileTest, IdleStreamsGiveBackTheirMemory) {
  options_.memory_bytes = 16 * kMiB;
  options_.stream_memory_bytes = 8 * kMiB;
  Start();
  Random random(TestSeed());
  const v1::Open open = OpenFor("hog", "fixed:size=512");
  std::vector<std::unique_ptr<TestUpload>> hogs;
  // Chunks that are never committed, until there is no room for more.
  for (bool is_full = false; !is_full;) {
    ASSERT_LT(hogs.size(), 100u);
    const std::string content = RandomContent(3'000'000, random.Next());
    hogs.push_back(std::make_unique<TestUpload>(channel_));
    hogs.back()->SendOpen(open);
    hogs.back()->SendFile(content);
    is_full = !hogs.back()->WaitFor([&](const std::vector<v1::UploadAnswer>& answers) {
      return !answers.empty() && answers.back().has_chunks() &&
             answers.back().chunks().chunks().rbegin()->end_offset() == content.size();
    });
  }
  EXPECT_EQ(ReasonOf(hogs.back()->WaitForEnd()), "MEMORY_EXHAUSTED");
  hogs.pop_back();
  // What the refused one had begun may ask for memory until it is gone.
  while (server_->stream_count() > hogs.size()) std::this_thread::yield();
  EXPECT_EQ(server_->CheckTimeouts(), 0u) << "nobody is idle for long enough";
  now_ms_ += milliseconds(std::chrono::hours(1)).count();
  EXPECT_EQ(server_->CheckTimeouts(), 0u) << "nobody asks for memory";
  const std::string content = RandomContent(3'000'000, random.Next());
  std::size_t evicted_count = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (bool is_served = false; !is_served;) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    TestUpload upload(channel_);
    upload.SendOpen(open);
    upload.SendFile(content);
    upload.WritesDone();
    const grpc::Status status = upload.WaitForEnd();
    is_served = status.ok();
    if (!is_served) {
      ASSERT_EQ(ReasonOf(status), "MEMORY_EXHAUSTED");
      evicted_count += server_->CheckTimeouts();
    }
  }
  // Some of them were enough.
  EXPECT_GE(evicted_count, 1u);
  EXPECT_LT(evicted_count, hogs.size());
  std::size_t told_count = 0;
  for (const auto& hog : hogs) {
    hog->WritesDone();
    const grpc::Status status = hog->WaitForEnd();
    told_count += !status.ok() && ReasonOf(status) == "IDLE_EVICTED" ? 1 : 0;
  }
  EXPECT_EQ(told_count, evicted_count);
}

// 10,000 of them: //e2e:flood_test.
TEST_F(HostileTest, StreamsBeyondTheLimitAreRefused) {
  constexpr std::size_t kTaken = 100;
  constexpr std::size_t kOpened = 300;
  options_.max_streams = kTaken;
  Start();
  std::vector<std::unique_ptr<TestUpload>> uploads;
  uploads.reserve(kOpened);
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  channels.reserve(4);
  for (int index = 0; index < 4; ++index) channels.push_back(Connect());
  for (std::size_t index = 0; index < kOpened; ++index) {
    uploads.push_back(std::make_unique<TestUpload>(channels[index % channels.size()], false));
    uploads.back()->SendOpen(OpenFor("home"));
    if (index < kTaken) {
      uploads.back()->StartReading();
      ASSERT_TRUE(uploads.back()->WaitFor([](const auto& answers) { return !answers.empty(); }));
    }
  }
  for (std::size_t index = kTaken; index < kOpened; ++index) {
    const grpc::Status status = uploads[index]->WaitForEnd();
    ASSERT_EQ(ReasonOf(status), "TOO_MANY_STREAMS") << index;
    ASSERT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  EXPECT_EQ(server_->stream_count(), kTaken);
  // An idle stream costs little.
  EXPECT_LE(server_->used_memory_bytes(), kTaken * 32 * kKiB);
  for (std::size_t index = 0; index < kTaken; ++index) {
    uploads[index]->WritesDone();
    ASSERT_TRUE(uploads[index]->WaitForEnd().ok());
  }
  uploads.clear();
  while (server_->stream_count() > 0) std::this_thread::yield();
  ExpectServed();
}

TEST_F(HostileTest, MemoryIsHeldUnderItsLimit) {
  options_.memory_bytes = 16 * kMiB;
  options_.stream_memory_bytes = 8 * kMiB;
  Start();
  const v1::Open open = OpenFor("home");
  const std::string content = RandomContent(3'000'000, TestSeed());
  std::vector<std::unique_ptr<TestUpload>> uploads;
  uploads.reserve(12);
  for (int index = 0; index < 12; ++index) {
    uploads.push_back(std::make_unique<TestUpload>(channel_));
    ASSERT_TRUE(uploads.back()->SendOpen(open));
  }
  std::vector<std::thread> writers;
  writers.reserve(uploads.size());
  std::atomic<int> refused{0};
  for (const auto& upload : uploads) {
    writers.emplace_back([&, &mine = *upload] {
      mine.SendFile(content, 300'000);
      mine.WritesDone();
      const grpc::Status status = mine.WaitForEnd();
      if (!status.ok()) {
        EXPECT_EQ(ReasonOf(status), "MEMORY_EXHAUSTED");
        ++refused;
        return;
      }
      EXPECT_EQ(mine.RecipeOf(1), PlainRecipe(content, open));
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_LT(refused.load(), 12);
  EXPECT_LE(server_->peak_memory_bytes(), options_.memory_bytes);
  uploads.clear();
  while (server_->stream_count() > 0) std::this_thread::yield();
  EXPECT_EQ(server_->used_memory_bytes(), 0u);
}

TEST_F(HangingIndexTest, StreamsDoNotWaitForever) {
  Start();
  // Two threads of the pool hang in the index, and the third stream gets none.
  std::vector<std::unique_ptr<TestUpload>> uploads;
  uploads.reserve(3);
  for (int index = 0; index < 3; ++index) {
    uploads.push_back(std::make_unique<TestUpload>(channel_));
    ASSERT_TRUE(uploads.back()->SendOpen(OpenFor("home")));
    ASSERT_TRUE(uploads.back()->SendFile("a file"));
    if (index < 2) gate_->WaitForBlocked(index + 1);
  }
  EXPECT_TRUE(PassTimeUntilEnded(3, 10'000));
  for (int index = 0; index < 2; ++index) {
    const grpc::Status status = uploads[static_cast<std::size_t>(index)]->WaitForEnd();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(status), "INDEX_UNAVAILABLE");
  }
  // It has asked the index for nothing.
  const grpc::Status waited = uploads[2]->WaitForEnd();
  EXPECT_EQ(ReasonOf(waited), "TOO_MANY_STREAMS");
  EXPECT_THAT(waited.error_message(), testing::HasSubstr("waited for a thread"));
  gate_->SetOpen(true);
  ExpectServed();
}

TEST_F(HangingIndexTest, CallsOfTheIndexAreFewAndDoNotWaitForever) {
  // Of these three quarters are one repository's.
  options_.index_calls.max_calls = 4;
  Start();
  std::vector<std::string> reasons(3);
  std::vector<std::thread> callers;
  callers.reserve(reasons.size());
  for (std::string& reason : reasons) {
    callers.emplace_back([&] { reason = ReasonOfStats(); });
  }
  // All hang: one that is answered before it began would give its place back.
  gate_->WaitForBlocked(3);
  EXPECT_TRUE(PassTimeUntilEnded(3, options_.index_calls.timeout.count()));
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(reasons, std::vector<std::string>(3, "INDEX_UNAVAILABLE"));
  // They keep their places: the index still has them.
  EXPECT_EQ(ReasonOfStats(), "TOO_MANY_CALLS");
  gate_->SetOpen(true);
  while (ReasonOfStats() == "TOO_MANY_CALLS") std::this_thread::yield();
  EXPECT_EQ(ReasonOfStats(), "OK");
  ExpectServed();
}

// Scans of a large index take long: uploads have threads of their own.
TEST_F(HangingIndexTest, ScansThatHangDelayNoUpload) {
  Start();
  std::vector<std::string> reasons(8);
  std::vector<std::thread> callers;
  callers.reserve(reasons.size());
  for (std::string& reason : reasons) {
    callers.emplace_back([&] {
      v1::ScanChunksRequest request;
      request.mutable_repository()->set_repository("home");
      request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
      request.set_limit(1);
      v1::ScanChunksResponse response;
      grpc::ClientContext context;
      const auto stub = v1::IndexService::NewStub(channel_);
      const grpc::Status status = stub->ScanChunks(&context, request, &response);
      reason = status.ok() ? "OK" : ReasonOf(status);
    });
  }
  // As many as there are threads for the calls of the index.
  gate_->WaitForBlocked(4);
  // A fifth one is a stream's lookup.
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.SendFile("a file"));
  gate_->WaitForBlocked(5);
  gate_->SetOpen(true);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(reasons, std::vector<std::string>(8, "OK"));
  ASSERT_TRUE(upload.WaitForChunks(1, std::string_view("a file").size()));
  ASSERT_TRUE(upload.CommitAnswered());
  EXPECT_TRUE(upload.WaitForDone(1));
}

TEST_F(HangingIndexTest, StopAnswersWhatHangs) {
  Start();
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.SendFile("a file"));
  std::string reason;
  std::thread caller([&] { reason = ReasonOfStats(); });
  gate_->WaitForBlocked(2);
  server_->Stop();
  caller.join();
  EXPECT_EQ(reason, "DRAINING");
  EXPECT_FALSE(upload.WaitForEnd().ok());
  gate_->SetOpen(true);
}

TEST_F(HostileTest, ClientsThatVanishLeaveNothing) {
  Start();
  Random random(TestSeed());
  const std::string content = RandomContent(2'000'000, random.Next());
  for (int round = 0; round < 20; ++round) {
    TestUpload upload(channel_);
    upload.SendOpen(OpenFor("home"));
    std::thread writer([&] { upload.SendFile(content, 50'000); });
    for (std::uint64_t spin = random.Below(2'000); spin > 0; --spin) std::this_thread::yield();
    upload.Cancel();
    writer.join();
  }
  while (server_->stream_count() > 0) std::this_thread::yield();
  ExpectServed();
  while (server_->used_memory_bytes() > 0) std::this_thread::yield();
}

}  // namespace
}  // namespace kerf
