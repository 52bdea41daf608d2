// Everything beside uploads: capabilities, the index service, health, drain, addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/version.h"
#include "base/wait_for.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "kerf/v1/index.grpc.pb.h"
#include "kerf/v1/status.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"
#include "server/net/listen_address.h"

namespace kerf {
namespace {

class ServicesTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.listen = {FreshSocketAddress(), "127.0.0.1:0"};
    options_.worker_threads = 1;
    auto server = Server::Start(options_, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(server_->addresses()[1]);
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
  }

  ServerOptions options_;
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ServicesTest, SaysWhatItCanDo) {
  const auto stub = v1::ChunkingService::NewStub(channel_);
  grpc::ClientContext context;
  v1::GetCapabilitiesResponse response;
  ASSERT_TRUE(stub->GetCapabilities(&context, {}, &response).ok());
  EXPECT_EQ(response.version(), kVersion);
  EXPECT_GT(response.profiles_size(), 0);
  EXPECT_EQ(response.digest_algorithms_size(), 3);
  // It has no hints.
  EXPECT_EQ(response.criteria_size(), 0);
  EXPECT_NE(response.backends(0), "cuda");
  EXPECT_EQ(response.limits().max_uncommitted_chunks(), 65'536u);
  EXPECT_EQ(response.limits().max_uncommitted_files(), 16'384u);
}

TEST_F(ServicesTest, IsWellWithoutGpus) {
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  ASSERT_TRUE(v1::StatusService::NewStub(channel_)->GetStatus(&context, {}, &response).ok());
  EXPECT_EQ(response.gpus_size(), 0);
  EXPECT_EQ(response.degradations_size(), 0);
}

// From epoch 0, in which all that `forget` names is forgotten already.
void ExpectEpochsAdvance(v1::IndexService::Stub& stub, const v1::ForgetChunksRequest& forget) {
  v1::AdvanceEpochRequest advance;
  *advance.mutable_repository() = forget.repository();
  advance.set_store_epoch(2);
  v1::AdvanceEpochResponse advanced;
  grpc::ClientContext advance_context;
  ASSERT_TRUE(stub.AdvanceEpoch(&advance_context, advance, &advanced).ok());
  advance.set_store_epoch(4);
  advance.set_min_previous_epoch(3);
  grpc::ClientContext early_context;
  ASSERT_TRUE(stub.AdvanceEpoch(&early_context, advance, &advanced).ok());
  EXPECT_EQ(advanced.previous_epoch(), 2u);
  v1::ForgetChunksResponse forgotten;
  grpc::ClientContext again_context;
  ASSERT_TRUE(stub.ForgetChunks(&again_context, forget, &forgotten).ok());
  EXPECT_EQ(forgotten.epoch(), 2u);
  EXPECT_EQ(forgotten.removed_count(), 0u);
  advance.set_min_previous_epoch(0);
  advance.set_store_epoch(1);
  grpc::ClientContext behind_context;
  const grpc::Status behind = stub.AdvanceEpoch(&behind_context, advance, &advanced);
  EXPECT_EQ(behind.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(behind), "EPOCH_BEHIND");
}

TEST_F(ServicesTest, IndexRoundTrip) {
  const auto stub = v1::IndexService::NewStub(channel_);
  v1::RepositoryRef repository;
  repository.set_repository("home");
  repository.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  v1::IndexEntry entry;
  entry.set_digest(std::string(32, 'd'));
  entry.set_length_bytes(77);
  entry.set_locator("pack 1");

  v1::CommitChunksRequest commit;
  *commit.mutable_repository() = repository;
  commit.set_store_epoch(1);
  *commit.add_entries() = entry;
  v1::CommitChunksResponse committed;
  grpc::ClientContext commit_context;
  ASSERT_TRUE(stub->CommitChunks(&commit_context, commit, &committed).ok());
  EXPECT_EQ(committed.entry_count(), 1u);

  v1::LookupChunksRequest lookup;
  *lookup.mutable_repository() = repository;
  lookup.set_store_epoch(1);
  lookup.add_digests(entry.digest());
  lookup.add_digests(std::string(32, 'e'));
  v1::LookupChunksResponse answers;
  grpc::ClientContext lookup_context;
  ASSERT_TRUE(stub->LookupChunks(&lookup_context, lookup, &answers).ok());
  ASSERT_EQ(answers.answers_size(), 2);
  EXPECT_EQ(answers.answers(0).verdict(), v1::VERDICT_DUPLICATE);
  EXPECT_EQ(answers.answers(0).entry().SerializeAsString(), entry.SerializeAsString());
  EXPECT_EQ(answers.answers(1).verdict(), v1::VERDICT_NEW);
  EXPECT_FALSE(answers.answers(1).has_entry());

  v1::GetIndexStatsRequest stats;
  *stats.mutable_repository() = repository;
  v1::GetIndexStatsResponse counted;
  grpc::ClientContext stats_context;
  ASSERT_TRUE(stub->GetIndexStats(&stats_context, stats, &counted).ok());
  EXPECT_EQ(counted.entry_count(), 1u);
  EXPECT_EQ(counted.backend(), "memory");

  v1::ForgetChunksRequest forget;
  *forget.mutable_repository() = repository;
  *forget.add_entries() = entry;
  v1::ForgetChunksResponse forgotten;
  grpc::ClientContext forget_context;
  ASSERT_TRUE(stub->ForgetChunks(&forget_context, forget, &forgotten).ok());
  EXPECT_EQ(forgotten.forgotten_count(), 1u);
  EXPECT_EQ(forgotten.epoch(), 0u);
  EXPECT_EQ(forgotten.removed_count(), 1u);

  ExpectEpochsAdvance(*stub, forget);
}

TEST_F(ServicesTest, OlderEntriesAreForgottenInParts) {
  const auto stub = v1::IndexService::NewStub(channel_);
  v1::CommitChunksRequest commit;
  commit.mutable_repository()->set_repository("test");
  commit.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  for (const std::uint64_t epoch : {1, 2}) {
    commit.set_store_epoch(epoch);
    commit.clear_entries();
    for (char letter = 'a'; letter <= 'c'; ++letter) {
      v1::IndexEntry& entry = *commit.add_entries();
      entry.set_digest(std::string(31, letter) + std::to_string(epoch));
      entry.set_length_bytes(1);
      entry.set_locator("at");
    }
    v1::CommitChunksResponse committed;
    grpc::ClientContext context;
    ASSERT_TRUE(stub->CommitChunks(&context, commit, &committed).ok());
  }
  v1::ForgetOlderChunksRequest request;
  *request.mutable_repository() = commit.repository();
  request.set_before_epoch(2);
  request.set_limit(4);
  v1::ForgetOlderChunksResponse answer;
  grpc::ClientContext first_context;
  ASSERT_TRUE(stub->ForgetOlderChunks(&first_context, request, &answer).ok());
  EXPECT_EQ(answer.forgotten_count(), 2u);
  EXPECT_EQ(answer.removed_count(), 2u);
  EXPECT_EQ(answer.last(), std::string(31, 'b') + "2");
  request.set_after(answer.last());
  grpc::ClientContext second_context;
  ASSERT_TRUE(stub->ForgetOlderChunks(&second_context, request, &answer).ok());
  EXPECT_EQ(answer.forgotten_count(), 1u);
  EXPECT_EQ(answer.removed_count(), 3u);
  EXPECT_EQ(answer.last(), "");
  const auto reason = [&] {
    grpc::ClientContext context;
    const grpc::Status status = stub->ForgetOlderChunks(&context, request, &answer);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return ReasonOf(status);
  };
  request.set_after("short");
  EXPECT_EQ(reason(), "BAD_FIELD");
  request.clear_after();
  for (const std::uint32_t limit : {0u, 65'537u}) {
    request.set_limit(limit);
    EXPECT_EQ(reason(), "BAD_FIELD");
  }
  request.set_limit(1);
  request.set_before_epoch(0);
  EXPECT_EQ(reason(), "BAD_FIELD");
}

TEST_F(ServicesTest, ScansGoThroughAllEntriesInOrder) {
  const auto stub = v1::IndexService::NewStub(channel_);
  v1::CommitChunksRequest commit;
  commit.mutable_repository()->set_repository("test");
  commit.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_XXH3_128);
  commit.set_store_epoch(1);
  for (char letter = 'e'; letter >= 'a'; --letter) {
    v1::IndexEntry& entry = *commit.add_entries();
    entry.set_digest(std::string(16, letter));
    entry.set_length_bytes(static_cast<std::uint32_t>(letter));
    entry.set_locator(std::string("\0 at ", 5) + letter);
  }
  v1::CommitChunksResponse committed;
  grpc::ClientContext commit_context;
  ASSERT_TRUE(stub->CommitChunks(&commit_context, commit, &committed).ok());

  v1::ScanChunksRequest request;
  *request.mutable_repository() = commit.repository();
  request.set_limit(2);
  std::vector<std::size_t> page_sizes;
  std::vector<std::string> seen;
  std::string last;
  do {
    v1::ScanChunksResponse answer;
    grpc::ClientContext context;
    ASSERT_TRUE(stub->ScanChunks(&context, request, &answer).ok());
    page_sizes.push_back(static_cast<std::size_t>(answer.entries_size()));
    for (const v1::IndexEntry& entry : answer.entries()) seen.push_back(entry.SerializeAsString());
    last = answer.last();
    if (answer.entries_size() > 0) {
      EXPECT_EQ(last, answer.entries().rbegin()->digest());
    }
    request.set_after(last);
  } while (!last.empty());
  EXPECT_EQ(page_sizes, (std::vector<std::size_t>{2, 2, 1, 0}));
  std::vector<std::string> expected;
  for (const v1::IndexEntry& entry : commit.entries()) {
    expected.insert(expected.begin(), entry.SerializeAsString());
  }
  EXPECT_EQ(seen, expected);

  const auto scan = [&] {
    v1::ScanChunksResponse answer;
    grpc::ClientContext context;
    const grpc::Status status = stub->ScanChunks(&context, request, &answer);
    if (status.ok()) return std::to_string(answer.entries_size());
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return ReasonOf(status);
  };
  // From where no entry is, and another repository's.
  request.set_after(std::string(15, 'c') + "d");
  EXPECT_EQ(scan(), "2");
  request.mutable_repository()->set_repository("other");
  EXPECT_EQ(scan(), "0");
  // A digest of the other algorithms is longer.
  for (const std::string& after : {std::string("short"), std::string(32, 'c')}) {
    request.set_after(after);
    EXPECT_EQ(scan(), "BAD_FIELD");
  }
  request.clear_after();
  for (const std::uint32_t limit : {0u, 16'385u, UINT32_MAX}) {
    request.set_limit(limit);
    EXPECT_EQ(scan(), "BAD_FIELD");
  }
  request.set_limit(16'384);
  EXPECT_EQ(scan(), "0");
  request.clear_repository();
  EXPECT_EQ(scan(), "BAD_FIELD");
}

// The largest entries that there can be, as many as one may ask for.
TEST_F(ServicesTest, AnAnswerOfAScanIsBounded) {
  constexpr std::uint32_t kLimit = 16'384;
  std::vector<IndexEntry> entries(kLimit + 1);
  for (std::size_t number = 0; number < entries.size(); ++number) {
    entries[number].digest.bytes.fill(0xFF);
    std::memcpy(entries[number].digest.bytes.data(), &number, 4);
    entries[number].length_bytes = UINT32_MAX;
    entries[number].locator = std::string(kMaxLocatorBytes, '\xff');
  }
  ASSERT_TRUE(WaitFor(index_->Commit({"test", DigestAlgorithm::kSha256}, 1, entries, false)).ok());
  const auto stub = v1::IndexService::NewStub(channel_);
  v1::ScanChunksRequest request;
  request.mutable_repository()->set_repository("test");
  request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_SHA256);
  request.set_limit(kLimit);
  v1::ScanChunksResponse answer;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->ScanChunks(&context, request, &answer).ok());
  EXPECT_EQ(answer.entries_size(), static_cast<int>(kLimit));
  EXPECT_LE(answer.ByteSizeLong(), std::size_t{2} << 20);
}

TEST_F(ServicesTest, IndexRequestsAreChecked) {
  const auto stub = v1::IndexService::NewStub(channel_);
  v1::LookupChunksRequest lookup;
  lookup.set_store_epoch(1);
  v1::LookupChunksResponse answers;
  const auto reason = [&] {
    grpc::ClientContext context;
    const grpc::Status status = stub->LookupChunks(&context, lookup, &answers);
    return status.ok() ? "OK" : ReasonOf(status);
  };
  EXPECT_EQ(reason(), "BAD_FIELD");
  lookup.mutable_repository()->set_repository("home");
  EXPECT_EQ(reason(), "BAD_FIELD");
  lookup.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_XXH3_128);
  EXPECT_EQ(reason(), "OK");
  lookup.add_digests("short");
  EXPECT_EQ(reason(), "BAD_FIELD");
  lookup.clear_digests();
  for (int count = 0; count < 65'536; ++count) lookup.add_digests(std::string(16, 'd'));
  EXPECT_EQ(reason(), "OK");
  lookup.add_digests(std::string(16, 'd'));
  EXPECT_EQ(reason(), "BAD_FIELD");
  // It would take a hundred MiB if it were parsed.
  lookup.clear_digests();
  for (int count = 0; count < 2'000'000; ++count) lookup.add_digests("");
  EXPECT_EQ(reason(), "BAD_FIELD");
}

TEST_F(ServicesTest, OnlyLengthsAndEpochsThatCanBeAreTaken) {
  const auto stub = v1::IndexService::NewStub(channel_);
  v1::CommitChunksRequest commit;
  commit.mutable_repository()->set_repository("home");
  commit.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  commit.set_store_epoch(1);
  v1::IndexEntry& entry = *commit.add_entries();
  entry.set_digest(std::string(32, 'd'));
  entry.set_locator("pack 1");
  const auto commit_reason = [&](std::uint32_t length_bytes) {
    entry.set_length_bytes(length_bytes);
    grpc::ClientContext context;
    v1::CommitChunksResponse committed;
    const grpc::Status status = stub->CommitChunks(&context, commit, &committed);
    return status.ok() ? "OK" : ReasonOf(status);
  };
  EXPECT_EQ(commit_reason(0), "BAD_FIELD");
  EXPECT_EQ(commit_reason(1), "OK");
  EXPECT_EQ(commit_reason(kMaxMaxBytes), "OK");
  EXPECT_EQ(commit_reason(kMaxMaxBytes + 1), "BAD_FIELD");
  EXPECT_EQ(commit_reason(UINT32_MAX), "BAD_FIELD");
  // Of the repository's algorithm, to the byte.
  for (const std::size_t digest_bytes : {0u, 16u, 31u, 33u, 64u}) {
    entry.set_digest(std::string(digest_bytes, 'd'));
    EXPECT_EQ(commit_reason(1), "BAD_FIELD") << digest_bytes;
  }
  entry.set_digest(std::string(32, 'd'));

  v1::AdvanceEpochRequest advance;
  *advance.mutable_repository() = commit.repository();
  const auto advance_reason = [&](std::uint64_t epoch) {
    advance.set_store_epoch(epoch);
    grpc::ClientContext context;
    v1::AdvanceEpochResponse advanced;
    const grpc::Status status = stub->AdvanceEpoch(&context, advance, &advanced);
    return status.ok() ? "OK" : ReasonOf(status);
  };
  EXPECT_EQ(advance_reason(UINT64_MAX), "BAD_FIELD");
  EXPECT_EQ(advance_reason(2), "OK");
}

TEST_F(ServicesTest, StaleChunksAreForgottenAndCommittedAnew) {
  const v1::Open open = OpenFor("home");
  const std::string content = "a chunk that the store has lost";
  const std::string digest = PlainRecipe(content, open)[0].digest;
  const auto upload_once = [&](bool stale) {
    TestUpload upload(channel_);
    ASSERT_TRUE(upload.SendOpen(open));
    ASSERT_TRUE(upload.SendFile(content));
    ASSERT_TRUE(upload.WaitFor(
        [](const auto& answers) { return answers.size() >= 2 && answers[1].has_chunks(); }));
    if (!stale) {
      EXPECT_EQ(upload.ChunksOf(1)[0].verdict(), v1::VERDICT_NEW);
      ASSERT_TRUE(upload.CommitAnswered("old place"));
      ASSERT_TRUE(upload.WaitForDone(1));
      // A second Commit of the same digest finds it in the index and changes nothing.
      ASSERT_TRUE(upload.SendFrame([&](v1::UploadFrame& frame) {
        auto* entry = frame.mutable_commit()->add_entries();
        entry->set_digest(digest);
        entry->set_locator("third place");
      }));
    } else {
      EXPECT_EQ(upload.ChunksOf(1)[0].verdict(), v1::VERDICT_DUPLICATE);
      EXPECT_EQ(upload.ChunksOf(1)[0].locator(), "old place");
      ASSERT_TRUE(upload.SendFrame([&](v1::UploadFrame& frame) {
        auto* entry = frame.mutable_report_stale()->add_entries();
        entry->set_digest(digest);
        entry->set_locator("old place");
      }));
      ASSERT_TRUE(upload.SendFrame([&](v1::UploadFrame& frame) {
        auto* entry = frame.mutable_commit()->add_entries();
        entry->set_digest(digest);
        entry->set_locator("new place");
      }));
    }
    upload.WritesDone();
    const grpc::Status status = upload.WaitForEnd();
    EXPECT_TRUE(status.ok()) << ReasonOf(status);
  };
  upload_once(false);
  upload_once(true);
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  ASSERT_TRUE(upload.SendFile(content));
  ASSERT_TRUE(upload.WaitForDone(1));
  EXPECT_EQ(upload.ChunksOf(1)[0].locator(), "new place");
}

TEST_F(ServicesTest, DrainSaysWhereToResume) {
  const v1::Open open = OpenFor("home");
  const std::string content(1'000'000, 'z');
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  ASSERT_TRUE(upload.SendFrame([&](v1::UploadFrame& frame) { frame.set_data(content); }));
  // All but the last chunk, which may go on.
  const std::uint64_t answered = PlainRecipe(content, open).rbegin()[1].end_offset;
  ASSERT_TRUE(upload.WaitForChunks(1, answered));
  server_->BeginDrain(std::chrono::milliseconds(5'000));

  const auto go_away = upload.WaitForAnswer(&v1::UploadAnswer::has_go_away);
  ASSERT_TRUE(go_away.has_value());
  EXPECT_EQ(go_away->go_away().drain_ms(), 5'000u);
  EXPECT_EQ(go_away->go_away().files_size(), 0);

  // Commits are still taken, more data is dropped.
  ASSERT_TRUE(upload.SendFrame([&](v1::UploadFrame& frame) { frame.set_data(content); }));
  ASSERT_TRUE(upload.CommitAnswered());
  const auto committed = upload.WaitForAnswer(&v1::UploadAnswer::has_committed);
  ASSERT_TRUE(committed.has_value());
  ASSERT_EQ(committed->committed().files_size(), 1);
  EXPECT_EQ(committed->committed().files(0).durable_offset(), answered);
  {
    TestUpload refused(channel_);
    EXPECT_EQ(ReasonOf(refused.WaitForEnd()), "DRAINING");
  }
  upload.WritesDone();
  const grpc::Status status = upload.WaitForEnd();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "DRAINING");
  server_->Stop();
  server_.reset();

  // Another server goes on from the durable offset: prefix and rest are the whole recipe.
  SetUp();
  TestUpload resumed(channel_);
  ASSERT_TRUE(resumed.SendOpen(open));
  ASSERT_TRUE(resumed.SendFile(std::string_view(content).substr(answered), 10'000, answered));
  resumed.WritesDone();
  EXPECT_TRUE(resumed.WaitForEnd().ok());
  std::vector<RecipeChunk> recipe = upload.RecipeOf(1);
  const std::vector<RecipeChunk> rest = resumed.RecipeOf(1);
  recipe.insert(recipe.end(), rest.begin(), rest.end());
  EXPECT_EQ(recipe, PlainRecipe(content, open));
}

// What a front that stops puts between a client's messages.
TEST_F(ServicesTest, ADrainFrameDrainsItsStreamAlone) {
  const v1::Open open = OpenFor("home");
  const std::string content(1'000'000, 'z');
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  ASSERT_TRUE(upload.SendFrame([&](v1::UploadFrame& frame) { frame.set_data(content); }));
  const std::uint64_t answered = PlainRecipe(content, open).rbegin()[1].end_offset;
  ASSERT_TRUE(upload.WaitForChunks(1, answered));
  ASSERT_TRUE(upload.CommitAnswered());
  // In the same message as data before and behind it, too.
  v1::UploadRequest request;
  request.add_frames()->set_data("before");
  request.add_frames()->mutable_drain()->set_drain_ms(1'234);
  request.add_frames()->set_data("behind");
  ASSERT_TRUE(upload.Send(request));
  const auto go_away = upload.WaitForAnswer(&v1::UploadAnswer::has_go_away);
  ASSERT_TRUE(go_away.has_value());
  EXPECT_EQ(go_away->go_away().drain_ms(), 1'234u);
  ASSERT_EQ(go_away->go_away().files_size(), 1);
  EXPECT_EQ(go_away->go_away().files(0).durable_offset(), answered);
  upload.WritesDone();
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "DRAINING");
  // Before Open there is nothing to resume.
  TestUpload unopened(channel_);
  ASSERT_TRUE(unopened.SendFrame([](v1::UploadFrame& frame) { frame.mutable_drain(); }));
  EXPECT_EQ(ReasonOf(unopened.WaitForEnd()), "DRAINING");
  // Nobody else is told.
  TestUpload other(channel_);
  ASSERT_TRUE(other.SendOpen(open));
  ASSERT_TRUE(other.SendFile(content));
  ASSERT_TRUE(other.WaitForChunks(1, content.size()));
  ASSERT_TRUE(other.CommitAnswered());
  ASSERT_TRUE(other.WaitForDone(1));
  other.WritesDone();
  EXPECT_TRUE(other.WaitForEnd().ok());
}

TEST_F(ServicesTest, StopEndsOpenStreams) {
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.WaitFor([](const auto& answers) { return !answers.empty(); }));
  server_->Stop();
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "DRAINING");
}

TEST_F(ServicesTest, TakenAddressesAreErrors) {
  ServerOptions again = options_;
  again.listen = {server_->addresses()[1]};
  EXPECT_EQ(Server::Start(again, index_.get()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  again.listen = {server_->addresses()[0]};
  const absl::Status status = Server::Start(again, index_.get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("another server"), std::string::npos) << status;
}

TEST(ListenAddress, DeadSocketsAreReplaced) {
  const std::string path = FreshSocketAddress().substr(5);
  EXPECT_TRUE(PrepareUnixSocket(path).ok());
  const int server = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(server, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(server, 1), 0);
  EXPECT_FALSE(PrepareUnixSocket(path).ok());
  close(server);
  EXPECT_TRUE(PrepareUnixSocket(path).ok());
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  std::ofstream(path) << "a plain file";
  EXPECT_FALSE(PrepareUnixSocket(path).ok());
  unlink(path.c_str());
}

TEST(ListenAddress, IsReadStrictly) {
  EXPECT_TRUE(ParseListenAddress("127.0.0.1:0").ok());
  EXPECT_TRUE(ParseListenAddress("[::1]:7461").ok());
  EXPECT_TRUE(ParseListenAddress("unix:/run/kerf.sock")->is_unix);
  for (const char* text :
       {"", "localhost", ":1", "host:", "host:99999", "host:x", "::1:80", "unix:", "host:-1"}) {
    EXPECT_FALSE(ParseListenAddress(text).ok()) << text;
  }
  EXPECT_FALSE(ParseListenAddress("unix:/" + std::string(200, 'x')).ok());
}

}  // namespace
}  // namespace kerf
