// Uploads through a whole server in this process.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/sanitizers.h"
#include "base/test_seed.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

std::string RandomContent(std::size_t size_bytes, std::uint64_t seed) {
  std::string content(size_bytes, '\0');
  Random(seed).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  return content;
}

std::size_t CountVerdict(const std::vector<v1::Chunk>& chunks, v1::Verdict verdict) {
  std::size_t count = 0;
  for (const v1::Chunk& chunk : chunks) count += chunk.verdict() == verdict ? 1 : 0;
  return count;
}

class UploadTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    options_.listen = {GetParam() ? FreshSocketAddress() : "127.0.0.1:0"};
    options_.worker_threads = 2;
    auto server = Server::Start(options_, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(server_->addresses()[0]);
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    server_->Stop();
    EXPECT_EQ(server_->stream_count(), 0u);
  }

  ServerOptions options_;
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

INSTANTIATE_TEST_SUITE_P(Transports, UploadTest, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "Unix" : "Tcp"; });

TEST_P(UploadTest, FirstNewThenDuplicate) {
  const std::string content = RandomContent(3'000'000, TestSeed());
  const v1::Open open = OpenFor("home");
  const std::vector<RecipeChunk> expected = PlainRecipe(content, open);
  {
    TestUpload upload(channel_);
    ASSERT_TRUE(upload.SendOpen(open));
    ASSERT_TRUE(upload.SendFile(content, 200'000));
    upload.WritesDone();
    // Nothing is committed, so nothing may be visible later.
    EXPECT_TRUE(upload.WaitForEnd().ok());
    EXPECT_EQ(upload.RecipeOf(1), expected);
    EXPECT_EQ(CountVerdict(upload.ChunksOf(1), v1::VERDICT_NEW), expected.size());
    EXPECT_FALSE(upload.WaitForDone(1));
  }
  {
    TestUpload upload(channel_);
    ASSERT_TRUE(upload.SendOpen(open));
    ASSERT_TRUE(upload.SendFile(content, 200'000));
    std::size_t answered = 0;
    ASSERT_TRUE(upload.WaitFor([&](const std::vector<v1::UploadAnswer>& answers) {
      answered = 0;
      for (const auto& answer : answers) {
        answered += static_cast<std::size_t>(answer.chunks().chunks_size());
      }
      return answered == expected.size();
    }));
    EXPECT_EQ(CountVerdict(upload.ChunksOf(1), v1::VERDICT_NEW), expected.size());
    ASSERT_TRUE(upload.CommitAnswered());
    ASSERT_TRUE(upload.WaitForDone(1));
    upload.WritesDone();
    EXPECT_TRUE(upload.WaitForEnd().ok());
  }
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  ASSERT_TRUE(upload.SendFile(content));
  ASSERT_TRUE(upload.WaitForDone(1));
  EXPECT_EQ(upload.RecipeOf(1), expected);
  EXPECT_EQ(CountVerdict(upload.ChunksOf(1), v1::VERDICT_DUPLICATE), expected.size());
  EXPECT_EQ(upload.ChunksOf(1)[0].locator(), "here");
  upload.WritesDone();
  EXPECT_TRUE(upload.WaitForEnd().ok());
}

TEST_P(UploadTest, OneByteAtATime) {
  const std::string content = RandomContent(20'000, TestSeed());
  const v1::Open open = OpenFor("home", "fastcdc2020:min=512,avg=2048,max=8192,level=1");
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  ASSERT_TRUE(upload.SendFile(content, 1));
  upload.WritesDone();
  EXPECT_TRUE(upload.WaitForEnd().ok());
  EXPECT_EQ(upload.RecipeOf(1), PlainRecipe(content, open));
}

TEST_P(UploadTest, ManySmallFilesInFewMessages) {
  Random random(TestSeed());
  const v1::Open open = OpenFor("home");
  std::vector<std::string> contents;
  constexpr int kFiles = kIsSanitized ? 250 : 1000;
  contents.reserve(kFiles);
  for (int index = 0; index < kFiles; ++index) {
    contents.push_back(RandomContent(random.OneIn(10) ? 0 : random.Below(30'000), random.Next()));
  }
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  v1::UploadRequest request;
  for (const std::string& content : contents) {
    request.add_frames()->mutable_file_begin()->set_file_key("k");
    if (!content.empty()) request.add_frames()->set_data(content);
    v1::FileEnd& end = *request.add_frames()->mutable_file_end();
    end.set_size_bytes(content.size());
    end.set_content_hash(ContentHashOf(content));
    if (request.ByteSizeLong() > 500'000) {
      ASSERT_TRUE(upload.Send(request));
      request.Clear();
    }
  }
  ASSERT_TRUE(upload.Send(request));
  std::vector<std::vector<RecipeChunk>> expected;
  expected.reserve(contents.size());
  std::size_t expected_chunks = 0;
  for (const std::string& content : contents) {
    expected.push_back(PlainRecipe(content, open));
    expected_chunks += expected.back().size();
  }
  ASSERT_TRUE(upload.WaitFor([&](const std::vector<v1::UploadAnswer>& answers) {
    std::size_t count = 0;
    for (const auto& answer : answers) {
      count += static_cast<std::size_t>(answer.chunks().chunks_size());
    }
    return count == expected_chunks;
  }));
  for (std::size_t index = 0; index < contents.size(); ++index) {
    ASSERT_EQ(upload.RecipeOf(index + 1), expected[index]) << "file " << index + 1;
  }
  ASSERT_TRUE(upload.CommitAnswered());
  ASSERT_TRUE(upload.WaitForDone(contents.size()));
  upload.WritesDone();
  EXPECT_TRUE(upload.WaitForEnd().ok());
}

// What it committed would be DUPLICATE for ever, whatever is collected.
TEST_P(UploadTest, AnEpochThatNoStoreCanHaveIsRefused) {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 40;
  const std::unique_ptr<v1::IndexService::Stub> stub = v1::IndexService::NewStub(channel_);
  v1::Open open = OpenFor("home");
  v1::RepositoryRef repository;
  repository.set_repository("home");
  repository.set_digest_algorithm(open.digest_algorithm());
  v1::IndexEntry entry;
  entry.set_digest(PlainRecipe("a chunk", open)[0].digest);
  entry.set_length_bytes(7);
  entry.set_locator("here");
  const auto uploaded = [&](std::uint64_t epoch) {
    open.set_store_epoch(epoch);
    TestUpload upload(channel_);
    if (upload.SendOpen(open)) upload.SendFile("a chunk");
    upload.WritesDone();
    const grpc::Status status = upload.WaitForEnd();
    return status.ok() ? "OK" : ReasonOf(status);
  };
  const auto looked_up = [&](std::uint64_t epoch) {
    v1::LookupChunksRequest request;
    *request.mutable_repository() = repository;
    request.set_store_epoch(epoch);
    request.add_digests(entry.digest());
    grpc::ClientContext context;
    v1::LookupChunksResponse response;
    const grpc::Status status = stub->LookupChunks(&context, request, &response);
    return status.ok() ? "OK" : ReasonOf(status);
  };
  const auto committed = [&](std::uint64_t epoch) {
    v1::CommitChunksRequest request;
    *request.mutable_repository() = repository;
    request.set_store_epoch(epoch);
    *request.add_entries() = entry;
    grpc::ClientContext context;
    v1::CommitChunksResponse response;
    const grpc::Status status = stub->CommitChunks(&context, request, &response);
    return status.ok() ? "OK" : ReasonOf(status);
  };
  const auto forgotten = [&](std::uint64_t epoch) {
    v1::ForgetOlderChunksRequest request;
    *request.mutable_repository() = repository;
    request.set_before_epoch(epoch);
    request.set_limit(1);
    grpc::ClientContext context;
    v1::ForgetOlderChunksResponse response;
    const grpc::Status status = stub->ForgetOlderChunks(&context, request, &response);
    return status.ok() ? "OK" : ReasonOf(status);
  };
  for (const std::uint64_t epoch :
       {kStep + 1, std::uint64_t{1} << 62, (std::uint64_t{1} << 62) + 1, UINT64_MAX}) {
    EXPECT_EQ(uploaded(epoch), "BAD_FIELD") << epoch;
    EXPECT_EQ(looked_up(epoch), "BAD_FIELD") << epoch;
    EXPECT_EQ(committed(epoch), "BAD_FIELD") << epoch;
    EXPECT_EQ(forgotten(epoch), "BAD_FIELD") << epoch;
  }
  // Nothing was written, and a store may be as far ahead of its index as it can get.
  EXPECT_EQ(uploaded(kStep), "OK");
  EXPECT_EQ(looked_up(kStep), "OK");
  EXPECT_EQ(committed(kStep), "OK");
  EXPECT_EQ(forgotten(kStep), "OK");
}

// Before it has sent anything.
TEST_P(UploadTest, AStreamFromTheFutureEndsAtItsOpen) {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  v1::AdvanceEpochRequest advance;
  advance.mutable_repository()->set_repository("home");
  advance.mutable_repository()->set_digest_algorithm(OpenFor("home").digest_algorithm());
  advance.set_store_epoch(1000);
  grpc::ClientContext context;
  v1::AdvanceEpochResponse response;
  ASSERT_TRUE(v1::IndexService::NewStub(channel_)->AdvanceEpoch(&context, advance, &response).ok());
  v1::Open open = OpenFor("home");
  open.set_store_epoch(1000 + kStep);
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(open));
  upload.WritesDone();
  EXPECT_TRUE(upload.WaitForEnd().ok());
  for (const std::uint64_t epoch : {1001 + kStep, std::uint64_t{1} << 40}) {
    open.set_store_epoch(epoch);
    TestUpload refused(channel_);
    ASSERT_TRUE(refused.SendOpen(open));
    const grpc::Status status = refused.WaitForEnd();
    EXPECT_EQ(ReasonOf(status), "BAD_FIELD") << epoch;
    EXPECT_TRUE(refused.answers().empty());
  }
}

}  // namespace
}  // namespace kerf
