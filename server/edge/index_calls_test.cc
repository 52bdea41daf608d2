// Calls of the Index service over an index that answers later: those that wait are many, hold no
// thread, and keep their places and their deadlines. Streams have the same deadline.
#include "server/edge/index_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/task.h"
#include "base/test_seed.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/forwarding_index.h"
#include "server/index/memory_index.h"
#include "server/index/rules.h"
#include "server/index/testing/late_index.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

v1::RepositoryRef Repository(const std::string& name) {
  v1::RepositoryRef repository;
  repository.set_repository(name);
  repository.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  return repository;
}

// As a Redis of which one master is cut off: what asks for any repository but "well" is answered
// when it likes, lookups and epochs.
class CutOffIndex final : public ForwardingIndex {
 public:
  CutOffIndex(Index* memory, LateIndex* late) : ForwardingIndex(memory), late_(*late) {}

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    if (repository.name == "well") {
      return ForwardingIndex::Lookup(repository, session_epoch, digests, results);
    }
    return late_.Lookup(repository, session_epoch, digests, results);
  }
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    ++advance_count;
    // Waits behind a lookup of nothing.
    LookupResult result;
    const Digest digest;
    KERF_CO_RETURN_IF_ERROR(co_await late_.Lookup(repository, 1, {&digest, 1}, {&result, 1}));
    co_return co_await ForwardingIndex::AdvanceEpoch(repository, epoch, min_before);
  }

  std::atomic<int> advance_count{0};

 private:
  LateIndex& late_;
};

// Holds lookups back until it is told to answer them; statistics are there at once.
class IndexCallsTest : public testing::Test {
 protected:
  // More than fit into the room of one repository, and 2.1 MiB each, as encoded.
  static constexpr int kManyDigests = 65'000;

  void Start() {
    options_.listen = {FreshSocketAddress()};
    options_.worker_threads = 1;
    options_.watchdog_interval = milliseconds(0);
    options_.clock = [this] { return TimePoint(milliseconds(now_ms_.load())); };
    late_.HoldBack(true);
    auto server = Server::Start(options_, &cut_off_);
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
  void LookUp(int digest_count, std::string* reason, const std::string& repository = "home") {
    callers_.emplace_back([this, digest_count, reason, repository] {
      v1::LookupChunksRequest request;
      *request.mutable_repository() = Repository(repository);
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
  void Advance(std::uint64_t epoch, std::string* reason) {
    callers_.emplace_back([this, epoch, reason] { *reason = ReasonOfAdvance(epoch); });
  }
  std::string ReasonOfAdvance(std::uint64_t epoch) {
    v1::AdvanceEpochRequest request;
    *request.mutable_repository() = Repository("home");
    request.set_store_epoch(epoch);
    v1::AdvanceEpochResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub_->AdvanceEpoch(&context, request, &response);
    return status.ok() ? "OK" : ReasonOf(status);
  }
  std::string ReasonOfStats(const std::string& repository = "home") {
    v1::GetIndexStatsRequest request;
    *request.mutable_repository() = Repository(repository);
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
  CutOffIndex cut_off_{memory_.get(), &late_};
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
  for (std::size_t at = 0; at < reasons.size(); ++at) {
    LookUp(100, &reasons[at], at < 5 ? "home" : "other");
  }
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

TEST_F(IndexCallsTest, OneRepositoryLeavesPlacesToOthers) {
  options_.index_calls.max_calls = 8;
  Start();
  std::vector<std::string> reasons(6);
  for (std::string& reason : reasons) LookUp(100, &reason);
  late_.WaitForCalls(reasons.size());
  EXPECT_EQ(ReasonOfStats("home"), "TOO_MANY_CALLS");
  EXPECT_EQ(ReasonOfStats("well"), "OK");
  late_.HoldBack(false);
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(reasons.size(), "OK"));
}

// However many wait, what they hold is bounded: those beyond it are not asked until others are
// done.
TEST_F(IndexCallsTest, LargeCallsWaitForEachOther) {
  Start();
  // Of 16 MiB one repository has a half.
  constexpr std::size_t kOfOne = 3;
  std::vector<std::string> reasons(10);
  for (std::size_t at = 0; at < reasons.size(); ++at) {
    LookUp(kManyDigests, &reasons[at], at % 2 == 0 ? "home" : "other");
    late_.WaitForCalls(std::min(at + 1, 2 * kOfOne));
  }
  // Time for one more, were there room for it.
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(late_.waiting_count(), 2 * kOfOne);
  late_.HoldBack(false);
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(reasons.size(), "OK"));
}

// The large calls of a store for which a part of the index is gone hold up nobody else's: neither
// short ones nor large ones.
TEST_F(IndexCallsTest, OneThatIsCutOffHoldsUpNoOther) {
  Start();
  std::vector<std::string> reasons(12);
  for (std::string& reason : reasons) LookUp(kManyDigests, &reason, "cut-off");
  late_.WaitForCalls(3);
  EXPECT_EQ(ReasonOfStats("well"), "OK");
  std::string large;
  LookUp(kManyDigests, &large, "well");
  callers_.back().join();
  callers_.pop_back();
  EXPECT_EQ(large, "OK");
  EXPECT_EQ(late_.waiting_count(), 3u);
  late_.HoldBack(false);
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(reasons.size(), "OK"));
}

// Of many stores large calls wait: others pass them within a second.
TEST_F(IndexCallsTest, ManyThatAreCutOffAreLetByInTime) {
  Start();
  const std::vector<std::string> names{"a", "b", "c"};
  std::vector<std::string> reasons(3 * names.size());
  // Two of each and the third of one: the room is full.
  for (std::size_t at = 0; at < 7; ++at) LookUp(kManyDigests, &reasons[at], names[at % 3]);
  late_.WaitForCalls(7);
  std::string large;
  LookUp(kManyDigests, &large, "well");
  EXPECT_EQ(ReasonOfStats("well"), "OK");
  std::this_thread::sleep_for(milliseconds(200));
  now_ms_ += limits::kSlowIndexCall.count() - 1;
  EXPECT_EQ(server_->CheckTimeouts(), 0u);
  EXPECT_EQ(late_.waiting_count(), 7u);
  ++now_ms_;
  EXPECT_EQ(server_->CheckTimeouts(), 0u);
  callers_.back().join();
  callers_.pop_back();
  EXPECT_EQ(large, "OK");
  // Those that wait count for their repositories as before: only as many as fit beside them go on.
  for (std::size_t at = 7; at < 9; ++at) LookUp(kManyDigests, &reasons[at], names[at % 3]);
  late_.WaitForCalls(9);
  std::string beyond;
  LookUp(kManyDigests, &beyond, "a");
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(late_.waiting_count(), 9u);
  late_.HoldBack(false);
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(reasons.size(), "OK"));
  EXPECT_EQ(beyond, "OK");
}

// What waits for long has a bound, too.
TEST_F(IndexCallsTest, WhatWaitsForLongIsBounded) {
  // A thirty-second part of it: 4 MiB, room for one.
  options_.memory_bytes = 128 << 20;
  Start();
  std::vector<std::string> reasons(7);
  for (std::size_t at = 0; at < reasons.size(); ++at) {
    LookUp(kManyDigests, &reasons[at], std::string(1, static_cast<char>('a' + at)));
  }
  late_.WaitForCalls(7);
  now_ms_ += limits::kSlowIndexCall.count();
  EXPECT_EQ(server_->CheckTimeouts(), 0u);
  std::vector<std::string> more(3);
  for (std::string& reason : more) LookUp(kManyDigests, &reason, "more");
  late_.WaitForCalls(8);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(late_.waiting_count(), 8u);
  late_.HoldBack(false);
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(reasons.size(), "OK"));
  EXPECT_EQ(more, std::vector<std::string>(more.size(), "OK"));
}

// A client that was told INDEX_UNAVAILABLE asks again while the index is still at it.
TEST_F(IndexCallsTest, AnEpochIsRaisedOnceHoweverOftenItIsAsked) {
  Start();
  constexpr std::uint64_t kStep = index_rules::kMaxEpochStep / 2;
  late_.HoldBack(false);
  ASSERT_EQ(ReasonOfAdvance(1), "OK");
  late_.HoldBack(true);
  std::string first;
  Advance(1 + kStep, &first);
  late_.WaitForCalls(1);
  now_ms_ += options_.index_calls.timeout.count();
  EXPECT_EQ(server_->CheckTimeouts(), 1u);
  AwaitCallers();
  EXPECT_EQ(first, "INDEX_UNAVAILABLE");
  std::vector<std::string> repeats(3);
  for (std::string& repeat : repeats) Advance(1 + kStep, &repeat);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(cut_off_.advance_count, 2);
  late_.HoldBack(false);
  AwaitCallers();
  EXPECT_EQ(repeats, std::vector<std::string>(repeats.size(), "OK"));
  // It counts once for how fast epochs may rise.
  EXPECT_EQ(ReasonOfAdvance(2 + kStep), "OK");
}

// It has its own deadline all the same.
TEST_F(IndexCallsTest, ARepeatDoesNotWaitForever) {
  Start();
  std::vector<std::string> reasons(2);
  Advance(2, &reasons[0]);
  late_.WaitForCalls(1);
  Advance(2, &reasons[1]);
  for (std::size_t ended_count = 0; ended_count < reasons.size();) {
    now_ms_ += options_.index_calls.timeout.count();
    ended_count += server_->CheckTimeouts();
    std::this_thread::yield();
  }
  AwaitCallers();
  EXPECT_EQ(reasons, std::vector<std::string>(2, "INDEX_UNAVAILABLE"));
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
