// Calls of the Index service over an index that answers later: those that wait are many, hold no
// thread, and keep their places and their deadlines. Streams have the same deadline.
#include "server/edge/index_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"
#include "server/index/testing/late_index.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

v1::RepositoryRef Home() {
  v1::RepositoryRef home;
  home.set_repository("home");
  home.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  return home;
}

// Holds lookups back until it is told to answer them; statistics are there at once.
class IndexCallsTest : public testing::Test {
 protected:
  void Start() {
    options_.listen = {FreshSocketAddress()};
    options_.worker_threads = 1;
    options_.watchdog_interval = milliseconds(0);
    options_.clock = [this] { return TimePoint(milliseconds(now_ms_.load())); };
    late_.HoldBack(true);
    auto server = Server::Start(options_, &late_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::IndexService::NewStub(ConnectTo(server_->addresses()[0]));
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
    late_.Close();
    for (std::thread& caller : callers_) caller.join();
    server_ = nullptr;
  }

  // Asks from a thread of its own, and says in `reason` what came of it.
  void LookUp(int digest_count, std::string* reason) {
    callers_.emplace_back([this, digest_count, reason] {
      v1::LookupChunksRequest request;
      *request.mutable_repository() = Home();
      request.set_store_epoch(1);
      for (int number = 0; number < digest_count; ++number) {
        request.add_digests(std::string(32, static_cast<char>(number)));
      }
      v1::LookupChunksResponse response;
      grpc::ClientContext context;
      const grpc::Status status = stub_->LookupChunks(&context, request, &response);
      *reason = !status.ok()                              ? ReasonOf(status)
                : response.answers_size() == digest_count ? "OK"
                                                          : "wrong answers";
    });
  }
  std::string ReasonOfStats() {
    v1::GetIndexStatsRequest request;
    *request.mutable_repository() = Home();
    v1::GetIndexStatsResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub_->GetIndexStats(&context, request, &response);
    return status.ok() ? "OK" : ReasonOf(status);
  }
  void AwaitCallers() {
    for (std::thread& caller : std::exchange(callers_, {})) caller.join();
  }

  const std::unique_ptr<Index> memory_ = CreateMemoryIndex();
  LateIndex late_{memory_.get(), TestSeed()};
  ServerOptions options_;
  std::atomic<std::int64_t> now_ms_{1'000'000};
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::IndexService::Stub> stub_;
  std::vector<std::thread> callers_;
};

// Far more than there are threads for the calls of the index.
TEST_F(IndexCallsTest, WhoeverWaitsForTheIndexHoldsUpNobody) {
  Start();
  std::vector<std::string> reasons(40);
  for (std::string& reason : reasons) LookUp(100, &reason);
  late_.WaitForCalls(reasons.size());
  EXPECT_EQ(ReasonOfStats(), "OK");
  late_.HoldBack(false);
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(reasons.size(), "OK"));
}

TEST_F(IndexCallsTest, WhoeverWaitsHasAPlaceUntilTheIndexLetsGo) {
  options_.index_calls.max_calls = 10;
  Start();
  std::vector<std::string> reasons(10);
  for (std::string& reason : reasons) LookUp(100, &reason);
  late_.WaitForCalls(reasons.size());
  EXPECT_EQ(ReasonOfStats(), "TOO_MANY_CALLS");
  now_ms_ += options_.index_calls.timeout.count() - 1;
  EXPECT_EQ(server_->CheckTimeouts(), 0u);
  ++now_ms_;
  EXPECT_EQ(server_->CheckTimeouts(), reasons.size());
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(reasons.size(), "INDEX_UNAVAILABLE"));
  // The index still has them.
  EXPECT_EQ(ReasonOfStats(), "TOO_MANY_CALLS");
  late_.HoldBack(false);
  while (ReasonOfStats() == "TOO_MANY_CALLS") std::this_thread::yield();
  EXPECT_EQ(ReasonOfStats(), "OK");
}

// However many wait, what they hold is bounded: those beyond it are not asked until others are
// done.
TEST_F(IndexCallsTest, LargeCallsWaitForEachOther) {
  Start();
  constexpr std::size_t kAtOnce = 7;
  // 2.1 MiB each, as encoded, of 16 MiB.
  constexpr int kDigests = 65'000;
  std::vector<std::string> reasons(kAtOnce + 3);
  for (std::string& reason : reasons) LookUp(kDigests, &reason);
  late_.WaitForCalls(kAtOnce);
  // Time for one more, were there room for it.
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(late_.waiting_count(), kAtOnce);
  late_.HoldBack(false);
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(reasons.size(), "OK"));
}

// It is busy with nothing meanwhile: only the deadline of its call can end it.
TEST_F(IndexCallsTest, AStreamThatWaitsForTheIndexEndsInTime) {
  Start();
  TestUpload upload(ConnectTo(server_->addresses()[0]));
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.SendFile("a file"));
  late_.WaitForCalls(1);
  // Served by the only thread: the turn that has asked is over.
  TestUpload other(ConnectTo(server_->addresses()[0]));
  ASSERT_TRUE(other.SendOpen(OpenFor("home")));
  other.WritesDone();
  ASSERT_TRUE(other.WaitForEnd().ok());
  now_ms_ += options_.timeouts.index.count() - 1;
  EXPECT_EQ(server_->CheckTimeouts(), 0u);
  ++now_ms_;
  ASSERT_EQ(server_->CheckTimeouts(), 1u);
  const grpc::Status status = upload.WaitForEnd();
  EXPECT_EQ(ReasonOf(status), "INDEX_UNAVAILABLE");
  // The index still has what it was asked.
  EXPECT_EQ(late_.waiting_count(), 1u);
}

TEST_F(IndexCallsTest, AStopAnswersWhoeverWaits) {
  Start();
  std::vector<std::string> reasons(10);
  for (std::string& reason : reasons) LookUp(100, &reason);
  late_.WaitForCalls(reasons.size());
  server_->Stop();
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(reasons.size(), "DRAINING"));
}

}  // namespace
}  // namespace kerf
