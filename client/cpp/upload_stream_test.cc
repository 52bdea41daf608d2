#include "client/cpp/upload_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/out_of_memory.h"
#include "client/cpp/testing/fake_server.h"

namespace kerf::client {
namespace {

class EndWatcher final : public AnswerHandler {
 public:
  void OnAnswer(const v1::UploadAnswer& /*answer*/) override {}
  void OnEnd(const absl::Status& status) override { ended_.set_value(status); }
  std::future<absl::Status> end() { return ended_.get_future(); }

 private:
  std::promise<absl::Status> ended_;
};

class WithoutMemory final : public AnswerHandler {
 public:
  void OnAnswer(const v1::UploadAnswer& /*answer*/) override {
    ++answer_count;
    throw std::bad_alloc();
  }
  void OnEnd(const absl::Status& /*status*/) override {}

  int answer_count = 0;
};

v1::Commit LongCommit() {
  v1::Commit commit;
  for (int entry = 0; entry < 1000; ++entry) commit.add_entries()->set_digest(std::string(32, 'd'));
  return commit;
}

TEST(UploadStreamTest, AServerThatDoesNotReadEndsTheStreamBeforeMemoryDoes) {
  FakeServer server([](grpc::ServerContext& context, FakeServer::Stream& /*stream*/) {
    return FakeServer::StaySilent(context);
  });
  EndWatcher watcher;
  std::future<absl::Status> end = watcher.end();
  UploadStream::Options options;
  options.max_control_bytes = std::size_t{1} << 20;
  UploadStream stream(*OpenChannel({server.address()}), options, watcher);
  // More than gRPC and the bound together hold.
  for (int number = 0; number < 1000; ++number) stream.Commit(LongCommit());
  ASSERT_EQ(end.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  const absl::Status status = end.get();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

// The thread is the stream's own: nobody else would catch it.
TEST(UploadStreamTest, NoMemoryForAnAnswerEndsTheStream) {
  FakeServer server([](grpc::ServerContext& context, FakeServer::Stream& stream) {
    v1::UploadResponse response;
    response.add_answers()->mutable_opened();
    response.add_answers()->mutable_committed();
    stream.Write(response);
    stream.Write(response);
    return FakeServer::StaySilent(context);
  });
  WithoutMemory handler;
  UploadStream stream(*OpenChannel({server.address()}), UploadStream::Options(), handler);
  const absl::Status status = stream.Wait();
  EXPECT_TRUE(IsOutOfMemory(status)) << status;
  EXPECT_EQ(RequestIdOf(status), stream.request_id());
  EXPECT_EQ(handler.answer_count, 1) << "it may be left in the middle of one";
  // Nobody waits for a block of it.
  EXPECT_TRUE(stream.DataSpan().empty());
}

TEST(UploadStreamTest, AServerThatReadsIsToldEverything) {
  std::atomic<int> commits = 0;
  FakeServer server([&](grpc::ServerContext& /*context*/, FakeServer::Stream& stream) {
    v1::UploadRequest request;
    while (stream.Read(&request)) {
      for (const v1::UploadFrame& frame : request.frames()) commits += frame.has_commit() ? 1 : 0;
    }
    return grpc::Status::OK;
  });
  EndWatcher watcher;
  UploadStream::Options options;
  // Of two commits: what has been sent counts no more.
  options.max_control_bytes = 80'000;
  UploadStream stream(*OpenChannel({server.address()}), options, watcher);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int number = 0; number < 100; ++number) {
    while (commits < number && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    stream.Commit(LongCommit());
  }
  stream.FinishWrites();
  EXPECT_TRUE(stream.Wait().ok());
  EXPECT_EQ(commits, 100);
}

TEST(UploadStreamTest, WhatIsToldArrivesAsItWasSaid) {
  std::vector<v1::UploadFrame> frames;
  FakeServer server([&](grpc::ServerContext& /*context*/, FakeServer::Stream& stream) {
    v1::UploadRequest request;
    while (stream.Read(&request)) {
      frames.insert(frames.end(), request.frames().begin(), request.frames().end());
    }
    return grpc::Status::OK;
  });
  v1::Commit commit = LongCommit();
  commit.mutable_entries(7)->set_locator("pack 1 2");
  v1::ReportStale report;
  report.add_entries()->set_digest(std::string(16, 's'));
  EndWatcher watcher;
  UploadStream::Options options;
  options.open.set_repository("home");
  UploadStream stream(*OpenChannel({server.address()}), options, watcher);
  stream.Commit(commit);
  stream.ReportStale(report);
  stream.Commit({});
  stream.FinishWrites();
  EXPECT_TRUE(stream.Wait().ok());
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[0].open().SerializeAsString(), options.open.SerializeAsString());
  EXPECT_EQ(frames[1].commit().SerializeAsString(), commit.SerializeAsString());
  EXPECT_EQ(frames[2].report_stale().SerializeAsString(), report.SerializeAsString());
  EXPECT_TRUE(frames[3].has_commit());
  EXPECT_TRUE(frames[3].commit().entries().empty());
}

TEST(UploadStreamTest, AnAnswerThatWouldTakeMuchMemoryEndsTheStream) {
  // Small enough for gRPC; and just small enough for the stream, with fields that nobody knows.
  for (const std::size_t size_bytes : {std::size_t{2} << 20, (std::size_t{2} << 20) + 1}) {
    FakeServer server([&](grpc::ServerContext& /*context*/, FakeServer::Stream& stream) {
      v1::UploadResponse response;
      std::string& unknown =
          *response.GetReflection()->MutableUnknownFields(&response)->AddLengthDelimited(1000);
      unknown.resize(size_bytes - 5);
      KERF_CHECK(response.ByteSizeLong() == size_bytes);
      stream.Write(response);
      return grpc::Status::OK;
    });
    EndWatcher watcher;
    UploadStream stream(*OpenChannel({server.address()}), {}, watcher);
    stream.FinishWrites();
    const absl::Status status = stream.Wait();
    EXPECT_EQ(status.ok(), size_bytes == std::size_t{2} << 20) << status;
    EXPECT_EQ(absl::IsInternal(status), !status.ok()) << status;
    // It would say so again.
    EXPECT_EQ(IsWrongAnswer(status), !status.ok());
  }
}

}  // namespace
}  // namespace kerf::client
