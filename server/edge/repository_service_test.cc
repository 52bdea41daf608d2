// The Repository service, what may be used where repositories are to be created first, and epochs
// that somebody has taken as far as he was let.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/wait_for.h"
#include "kerf/v1/index.grpc.pb.h"
#include "kerf/v1/repository.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

using testing::ElementsAre;

v1::RepositoryRef RefOf(const std::string& name) {
  v1::RepositoryRef ref;
  ref.set_repository(name);
  ref.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  return ref;
}

class RepositoryServiceTest : public testing::Test {
 protected:
  void Start(bool only_created) {
    ServerOptions options;
    options.listen = {FreshSocketAddress()};
    options.worker_threads = 1;
    options.only_created_repositories = only_created;
    options.clock = [this] { return now_; };
    options.watchdog_interval = std::chrono::milliseconds(0);
    auto server = Server::Start(options, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(server_->addresses()[0]);
    repositories_ = v1::RepositoryService::NewStub(channel_);
    index_stub_ = v1::IndexService::NewStub(channel_);
  }
  void TearDown() override { server_->Stop(); }

  static std::string Named(const grpc::Status& status) {
    return status.ok() ? "OK" : ReasonOf(status);
  }
  template <typename Stub, typename Request, typename Response>
  static std::string Call(Stub& stub,
                          grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                       Response*),
                          const Request& request, Response* response) {
    grpc::ClientContext context;
    return Named((stub.*method)(&context, request, response));
  }

  std::string Create(const std::string& name, bool* is_new = nullptr) {
    v1::CreateRepositoryRequest request;
    *request.mutable_repository() = RefOf(name);
    v1::CreateRepositoryResponse response;
    grpc::ClientContext context;
    const grpc::Status status = repositories_->CreateRepository(&context, request, &response);
    if (is_new != nullptr) *is_new = response.is_new();
    return Named(status);
  }
  std::vector<std::string> List() {
    std::vector<std::string> names;
    v1::ListRepositoriesRequest request;
    request.set_limit(2);
    while (true) {
      v1::ListRepositoriesResponse response;
      grpc::ClientContext context;
      const grpc::Status status = repositories_->ListRepositories(&context, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      if (!status.ok() || response.repositories().empty()) return names;
      for (const auto& listed : response.repositories()) {
        names.push_back(listed.repository().repository() + (listed.is_created() ? "+" : ""));
        *request.mutable_after() = listed.repository();
      }
    }
  }
  // All steps; how many entries went.
  std::uint64_t Drop(const std::string& name, std::uint32_t limit) {
    v1::DropRepositoryRequest request;
    *request.mutable_repository() = RefOf(name);
    request.set_limit(limit);
    std::uint64_t dropped_count = 0;
    do {
      v1::DropRepositoryResponse response;
      grpc::ClientContext context;
      const grpc::Status status = repositories_->DropRepository(&context, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      if (!status.ok()) break;
      dropped_count += response.dropped_count();
      request.set_after(response.last());
    } while (!request.after().empty());
    return dropped_count;
  }
  std::string Reset(const std::string& name, std::uint64_t epoch, std::uint32_t limit = 10) {
    v1::ResetEpochRequest request;
    *request.mutable_repository() = RefOf(name);
    request.set_epoch(epoch);
    request.set_limit(limit);
    do {
      v1::ResetEpochResponse response;
      grpc::ClientContext context;
      const grpc::Status status = repositories_->ResetEpoch(&context, request, &response);
      if (!status.ok()) return ReasonOf(status);
      request.set_after(response.last());
    } while (!request.after().empty());
    return "OK";
  }
  std::string Advance(const std::string& name, std::uint64_t epoch) {
    v1::AdvanceEpochRequest request;
    *request.mutable_repository() = RefOf(name);
    request.set_store_epoch(epoch);
    v1::AdvanceEpochResponse response;
    grpc::ClientContext context;
    return Named(index_stub_->AdvanceEpoch(&context, request, &response));
  }
  std::string Commit(const std::string& name, std::uint64_t epoch, int count = 1) {
    v1::CommitChunksRequest request;
    *request.mutable_repository() = RefOf(name);
    request.set_store_epoch(epoch);
    for (int number = 0; number < count; ++number) {
      v1::IndexEntry& entry = *request.add_entries();
      entry.set_digest(std::string(31, 'd') + static_cast<char>(number));
      entry.set_length_bytes(7);
      entry.set_locator("somewhere");
    }
    v1::CommitChunksResponse response;
    grpc::ClientContext context;
    return Named(index_stub_->CommitChunks(&context, request, &response));
  }
  std::uint64_t EpochOf(const std::string& name) {
    return WaitFor(index_->Stats({name, DigestAlgorithm::kBlake3}))->epoch;
  }
  // Of a file of one chunk, in a session of that epoch: the verdict of its chunk, or how the stream
  // ended.
  std::string Upload(const std::string& name, std::uint64_t epoch) {
    v1::Open open = OpenFor(name);
    open.set_store_epoch(epoch);
    TestUpload upload(channel_);
    if (!upload.SendOpen(open) || !upload.SendFile("what a backup sends")) {
      return Named(upload.WaitForEnd());
    }
    const auto answer = upload.WaitForAnswer(&v1::UploadAnswer::has_chunks);
    if (!answer.has_value()) return Named(upload.WaitForEnd());
    const v1::Verdict verdict = answer->chunks().chunks(0).verdict();
    if (verdict != v1::VERDICT_DUPLICATE) {
      EXPECT_TRUE(upload.CommitAnswered());
      if (!upload.WaitForDone(1)) return Named(upload.WaitForEnd());
    }
    upload.WritesDone();
    EXPECT_TRUE(upload.WaitForEnd().ok());
    return v1::Verdict_Name(verdict);
  }

  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::RepositoryService::Stub> repositories_;
  std::unique_ptr<v1::IndexService::Stub> index_stub_;
  TimePoint now_{std::chrono::hours(1)};
};

TEST_F(RepositoryServiceTest, CreatesListsAndDrops) {
  Start(/*only_created=*/false);
  EXPECT_THAT(List(), ElementsAre());
  bool is_new = false;
  EXPECT_EQ(Create("home", &is_new), "OK");
  EXPECT_TRUE(is_new);
  EXPECT_EQ(Create("home", &is_new), "OK");
  EXPECT_FALSE(is_new);
  // Met when it is named.
  EXPECT_EQ(Commit("met", 3, 25), "OK");
  EXPECT_EQ(Commit("home", 3, 25), "OK");
  EXPECT_EQ(Upload("uploads", 1), "VERDICT_NEW");
  EXPECT_THAT(List(), ElementsAre("met", "home+", "uploads"));
  EXPECT_EQ(Drop("home", 10), 25u);
  EXPECT_THAT(List(), ElementsAre("met", "uploads"));
  EXPECT_EQ(Drop("home", 10), 0u);
  EXPECT_EQ(Drop("met", 65'536), 25u);
  EXPECT_EQ(Upload("uploads", 1), "VERDICT_DUPLICATE");
}

TEST_F(RepositoryServiceTest, FieldsAreChecked) {
  Start(/*only_created=*/false);
  EXPECT_EQ(Create("not a name"), "BAD_FIELD");
  for (const std::uint32_t limit : {0u, 1001u}) {
    v1::ListRepositoriesRequest request;
    request.set_limit(limit);
    v1::ListRepositoriesResponse response;
    EXPECT_EQ(
        Call(*repositories_, &v1::RepositoryService::Stub::ListRepositories, request, &response),
        "BAD_FIELD");
  }
  for (const std::uint32_t limit : {0u, 65'537u}) {
    v1::DropRepositoryRequest request;
    *request.mutable_repository() = RefOf("home");
    request.set_limit(limit);
    v1::DropRepositoryResponse response;
    EXPECT_EQ(
        Call(*repositories_, &v1::RepositoryService::Stub::DropRepository, request, &response),
        "BAD_FIELD");
    EXPECT_EQ(Reset("home", 1, limit), "BAD_FIELD");
  }
  v1::DropRepositoryRequest request;
  *request.mutable_repository() = RefOf("home");
  request.set_limit(1);
  request.set_after("short");
  v1::DropRepositoryResponse response;
  EXPECT_EQ(Call(*repositories_, &v1::RepositoryService::Stub::DropRepository, request, &response),
            "BAD_FIELD");
  EXPECT_EQ(Reset("home", (std::uint64_t{1} << 62) + 1), "BAD_FIELD");
  EXPECT_EQ(Reset("home", std::uint64_t{1} << 62), "OK");
}

TEST_F(RepositoryServiceTest, OnlyCreatedOnesMayBeUsed) {
  Start(/*only_created=*/true);
  // There is one of that name, and nobody is told.
  const RepositoryId there{"there", DigestAlgorithm::kBlake3};
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(there, 1, 0)).ok());
  for (const std::string name : {"there", "nowhere"}) {
    EXPECT_EQ(Upload(name, 1), "NOT_YOURS");
    EXPECT_EQ(Commit(name, 1), "NOT_YOURS");
    EXPECT_EQ(Advance(name, 2), "NOT_YOURS");
    v1::GetIndexStatsRequest stats;
    *stats.mutable_repository() = RefOf(name);
    v1::GetIndexStatsResponse told;
    EXPECT_EQ(Call(*index_stub_, &v1::IndexService::Stub::GetIndexStats, stats, &told),
              "NOT_YOURS");
    v1::LookupChunksRequest lookup;
    *lookup.mutable_repository() = RefOf(name);
    lookup.set_store_epoch(1);
    v1::LookupChunksResponse answers;
    EXPECT_EQ(Call(*index_stub_, &v1::IndexService::Stub::LookupChunks, lookup, &answers),
              "NOT_YOURS");
    v1::ForgetChunksRequest forget;
    *forget.mutable_repository() = RefOf(name);
    v1::ForgetChunksResponse forgotten;
    EXPECT_EQ(Call(*index_stub_, &v1::IndexService::Stub::ForgetChunks, forget, &forgotten),
              "NOT_YOURS");
    v1::ForgetOlderChunksRequest older;
    *older.mutable_repository() = RefOf(name);
    older.set_before_epoch(1);
    older.set_limit(1);
    v1::ForgetOlderChunksResponse gone;
    EXPECT_EQ(Call(*index_stub_, &v1::IndexService::Stub::ForgetOlderChunks, older, &gone),
              "NOT_YOURS");
    v1::ScanChunksRequest scan;
    *scan.mutable_repository() = RefOf(name);
    scan.set_limit(1);
    v1::ScanChunksResponse page;
    EXPECT_EQ(Call(*index_stub_, &v1::IndexService::Stub::ScanChunks, scan, &page), "NOT_YOURS");
  }
  EXPECT_EQ(EpochOf("there"), 1u);
  // What an operator does needs no leave.
  EXPECT_EQ(Create("there"), "OK");
  EXPECT_EQ(Upload("there", 1), "VERDICT_NEW");
  EXPECT_EQ(Commit("there", 1), "OK");
  EXPECT_EQ(Advance("there", 2), "OK");
  EXPECT_THAT(List(), ElementsAre("there+"));
  EXPECT_EQ(Drop("there", 10), 2u);
  EXPECT_EQ(Upload("there", 1), "NOT_YOURS");
  EXPECT_EQ(Commit("there", 1), "NOT_YOURS");
}

// The attack of a peer that may collect: it takes the epoch as far as it is let, as often as it is.
TEST_F(RepositoryServiceTest, NobodyTakesAnEpochWhereNoStoreFollows) {
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 40;
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  // An agent does not follow its index beyond that (client/store/collect/epoch_round.h).
  constexpr std::uint64_t kFollowed = std::uint64_t{1} << 41;
  Start(/*only_created=*/false);
  EXPECT_EQ(Upload("home", 5), "VERDICT_NEW");
  EXPECT_EQ(Advance("home", 5), "OK");
  EXPECT_EQ(Upload("home", 5), "VERDICT_DUPLICATE");
  EXPECT_EQ(Advance("new", kFirst + 1), "BAD_FIELD");
  EXPECT_EQ(Advance("new", kFirst), "OK");
  for (const std::string name : {"home", "new"}) {
    std::uint64_t raised_count = 0;
    for (int count = 0; count < 600; ++count) {
      now_ += std::chrono::seconds(1);
      const std::uint64_t epoch = EpochOf(name);
      EXPECT_EQ(Advance(name, epoch + kStep + 1) == "OK", false);
      if (Advance(name, epoch + kStep) == "OK") ++raised_count;
    }
    EXPECT_LE(raised_count, 2u) << name;
    EXPECT_LT(EpochOf(name), kFollowed) << name;
  }
  // It has taken all that there is of time: an honest collection of today has to wait, or
  const std::uint64_t far = EpochOf("home");
  EXPECT_EQ(Advance("home", far + 2), "TOO_MANY_CALLS");
  EXPECT_EQ(Commit("home", far + kStep), "OK");
  // Backups of the store, which is at 6, are refused by the fence.
  EXPECT_EQ(Upload("home", 6), "VERDICT_DUPLICATE");
  EXPECT_EQ(Commit("home", 6), "EPOCH_BEHIND");

  EXPECT_EQ(Reset("home", 5), "OK");
  EXPECT_EQ(EpochOf("home"), 5u);
  // A good backup: what the index has is looked at, told again, and believed from then on.
  EXPECT_EQ(Upload("home", 6), "VERDICT_UNVERIFIED");
  EXPECT_EQ(Upload("home", 6), "VERDICT_DUPLICATE");
  // What was committed far in the future is believed no more than all else.
  EXPECT_EQ(WaitFor(index_->ForgetOlder({"home", DigestAlgorithm::kBlake3}, 6, std::nullopt, 10))
                ->forgotten.forgotten_count,
            1u);
  // And the next collection is let through at once.
  EXPECT_EQ(Advance("home", 7), "OK");
  EXPECT_EQ(Advance("home", 8), "OK");
}

// Of a repository that goes nothing is remembered: the next one of its name has done nothing yet.
TEST_F(RepositoryServiceTest, ADropForgivesHowFarItsEpochWasTaken) {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  Start(/*only_created=*/false);
  EXPECT_EQ(Advance("home", 5), "OK");
  EXPECT_EQ(Advance("home", 5 + kStep), "OK");
  EXPECT_EQ(Advance("home", 7 + kStep), "TOO_MANY_CALLS");
  Drop("home", 10);
  EXPECT_EQ(Advance("home", 5), "OK");
  EXPECT_EQ(Advance("home", 6), "OK");
}

// An index that has gone back in time is told so as often as it is asked, and is not raised by it.
TEST_F(RepositoryServiceTest, WhatWasNotRaisedCountsForNothing) {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  Start(/*only_created=*/false);
  EXPECT_EQ(Advance("home", 5), "OK");
  for (int count = 0; count < 3; ++count) {
    v1::AdvanceEpochRequest request;
    *request.mutable_repository() = RefOf("home");
    request.set_store_epoch(5 + kStep);
    request.set_min_previous_epoch(6);
    v1::AdvanceEpochResponse response;
    EXPECT_EQ(Call(*index_stub_, &v1::IndexService::Stub::AdvanceEpoch, request, &response), "OK");
    EXPECT_EQ(response.previous_epoch(), 5u);
  }
  EXPECT_EQ(EpochOf("home"), 5u);
  EXPECT_EQ(Advance("home", 7), "OK");
}

// A lost index, and an old copy of one, are taken to their store's epoch by one call.
TEST_F(RepositoryServiceTest, AnIndexThatLiesBehindCatchesUpInOneCall) {
  Start(/*only_created=*/false);
  EXPECT_EQ(Advance("lost", 90'000'000), "OK");
  EXPECT_EQ(Upload("lost", 90'000'000), "VERDICT_NEW");
  EXPECT_EQ(Advance("copy", 1000), "OK");
  EXPECT_EQ(Upload("copy", 1'000'000), "VERDICT_NEW");
  EXPECT_EQ(Advance("copy", 1'000'000), "OK");
  // It may collect all the same, a while later.
  now_ += std::chrono::seconds(1);
  for (std::uint64_t epoch = 1'000'001; epoch < 1'000'040; ++epoch) {
    EXPECT_EQ(Advance("copy", epoch), "OK");
  }
}

}  // namespace
}  // namespace kerf
