// What docs/spec/protocol.md says beside the states of a stream: each test holds one of its rules,
// by a client that knows nothing but the protos.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/wait_for.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "kerf/v1/index.grpc.pb.h"
#include "kerf/v1/repository.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

constexpr v1::DigestAlgorithm kBlake3 = v1::DIGEST_ALGORITHM_BLAKE3;
constexpr v1::DigestAlgorithm kSha256 = v1::DIGEST_ALGORITHM_SHA256;

std::string NameOf(const grpc::Status& status) { return status.ok() ? "OK" : ReasonOf(status); }

std::string MetadataOf(const grpc::Status& status, const std::string& key) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  details.ParseFromString(status.error_details());
  for (const auto& detail : details.details()) detail.UnpackTo(&info);
  const auto found = info.metadata().find(key);
  return found == info.metadata().end() ? "" : found->second;
}

class ProtocolTest : public testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = {FreshSocketAddress()};
    options.worker_threads = 1;
    options.watchdog_interval = std::chrono::milliseconds(0);
    auto server = Server::Start(options, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(server_->addresses()[0]);
    stub_ = v1::IndexService::NewStub(channel_);
  }
  void TearDown() override { server_->Stop(); }

  static v1::RepositoryRef Home(v1::DigestAlgorithm algorithm = kBlake3) {
    v1::RepositoryRef ref;
    ref.set_repository("home");
    ref.set_digest_algorithm(algorithm);
    return ref;
  }
  static v1::Open OpenHome(std::uint64_t epoch = 1, v1::DigestAlgorithm algorithm = kBlake3) {
    v1::Open open = OpenFor("home");
    open.set_store_epoch(epoch);
    open.set_digest_algorithm(algorithm);
    return open;
  }

  grpc::Status Commit(const std::vector<v1::IndexEntry>& entries, std::uint64_t epoch = 1,
                      v1::DigestAlgorithm algorithm = kBlake3) {
    v1::CommitChunksRequest request;
    *request.mutable_repository() = Home(algorithm);
    request.set_store_epoch(epoch);
    for (const v1::IndexEntry& entry : entries) *request.add_entries() = entry;
    grpc::ClientContext context;
    v1::CommitChunksResponse response;
    return stub_->CommitChunks(&context, request, &response);
  }
  grpc::Status Advance(std::uint64_t epoch, v1::DigestAlgorithm algorithm = kBlake3) {
    v1::AdvanceEpochRequest request;
    *request.mutable_repository() = Home(algorithm);
    request.set_store_epoch(epoch);
    grpc::ClientContext context;
    v1::AdvanceEpochResponse response;
    return stub_->AdvanceEpoch(&context, request, &response);
  }
  grpc::Status Create(v1::DigestAlgorithm algorithm) {
    v1::CreateRepositoryRequest request;
    *request.mutable_repository() = Home(algorithm);
    grpc::ClientContext context;
    v1::CreateRepositoryResponse response;
    return v1::RepositoryService::NewStub(channel_)->CreateRepository(&context, request, &response);
  }
  grpc::Status Reset(std::uint64_t epoch, v1::DigestAlgorithm algorithm) {
    v1::ResetEpochRequest request;
    *request.mutable_repository() = Home(algorithm);
    request.set_epoch(epoch);
    request.set_limit(10);
    grpc::ClientContext context;
    v1::ResetEpochResponse response;
    return v1::RepositoryService::NewStub(channel_)->ResetEpoch(&context, request, &response);
  }
  // The locator that a session of that epoch is answered; empty for NEW.
  std::string LocatorOf(const std::string& digest, std::uint64_t epoch = 1,
                        v1::Verdict* verdict = nullptr) {
    v1::LookupChunksRequest request;
    *request.mutable_repository() = Home();
    request.set_store_epoch(epoch);
    request.add_digests(digest);
    grpc::ClientContext context;
    v1::LookupChunksResponse response;
    const grpc::Status status = stub_->LookupChunks(&context, request, &response);
    EXPECT_TRUE(status.ok()) << NameOf(status);
    if (!status.ok()) return "";
    if (verdict != nullptr) *verdict = response.answers(0).verdict();
    return response.answers(0).entry().locator();
  }
  // How a stream ends that does nothing but open.
  grpc::Status OpenAndEnd(const v1::Open& open, const std::string& shard_key = "") {
    TestUpload upload(channel_, /*read=*/true, shard_key);
    upload.SendOpen(open);
    upload.WritesDone();
    return upload.WaitForEnd();
  }
  // A stream of which a file of one chunk was answered.
  std::unique_ptr<TestUpload> SendOne(const std::string& content, std::uint64_t epoch = 1) {
    auto upload = std::make_unique<TestUpload>(channel_);
    EXPECT_TRUE(upload->SendOpen(OpenHome(epoch)));
    EXPECT_TRUE(upload->SendFile(content));
    EXPECT_TRUE(upload->WaitForAnswer(&v1::UploadAnswer::has_chunks).has_value());
    return upload;
  }
  static void SendEntry(TestUpload& upload, bool is_stale, const std::string& digest,
                        const std::string& locator) {
    upload.SendFrame([&](v1::UploadFrame& frame) {
      v1::CommitEntry& entry = is_stale ? *frame.mutable_report_stale()->add_entries()
                                        : *frame.mutable_commit()->add_entries();
      entry.set_digest(digest);
      entry.set_locator(locator);
    });
  }
  static std::string EndOf(TestUpload& upload) {
    upload.WritesDone();
    return NameOf(upload.WaitForEnd());
  }
  // 1: SERVING, 2: NOT_SERVING; 0: there is no such service.
  int HealthOf(const std::string& service) {
    grpc::TemplatedGenericStub<google::protobuf::MessageLite, google::protobuf::MessageLite> stub(
        channel_);
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    std::promise<grpc::Status> ended;
    stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                   [&](const grpc::Status& status) { ended.set_value(status); });
    const grpc::Status status = ended.get_future().get();
    if (status.ok()) return response.status();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    return 0;
  }

  static v1::IndexEntry EntryAt(const std::string& digest, const std::string& locator,
                                std::uint32_t length_bytes = 7) {
    v1::IndexEntry entry;
    entry.set_digest(digest);
    entry.set_length_bytes(length_bytes);
    entry.set_locator(locator);
    return entry;
  }
  static std::string DigestOf(const std::string& content) {
    return PlainRecipe(content, OpenHome())[0].digest;
  }

  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IndexService::Stub> stub_;
};

TEST_F(ProtocolTest, ARepositoryHasOneDigestAlgorithm) {
  // Nobody has begun it: an Open alone, or a look, begins nothing.
  EXPECT_EQ(NameOf(OpenAndEnd(OpenHome(1, kSha256))), "OK");
  EXPECT_EQ(NameOf(Commit({EntryAt(std::string(32, 'd'), "here")})), "OK");
  const std::string mismatch = "DIGEST_ALGORITHM_MISMATCH";
  for (const grpc::Status& status : {OpenAndEnd(OpenHome(1, kSha256)), Commit({}, 1, kSha256),
                                     Advance(1, kSha256), Create(kSha256), Reset(7, kSha256),
                                     OpenAndEnd(OpenHome(1, v1::DIGEST_ALGORITHM_XXH3_128))}) {
    EXPECT_EQ(NameOf(status), mismatch);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(MetadataOf(status, "digest_algorithm"), "blake3");
  }
  // To whoever only looks, or forgets, it is an empty one.
  v1::GetIndexStatsRequest request;
  *request.mutable_repository() = Home(kSha256);
  grpc::ClientContext context;
  v1::GetIndexStatsResponse stats;
  EXPECT_EQ(NameOf(stub_->GetIndexStats(&context, request, &stats)), "OK");
  EXPECT_EQ(stats.entry_count(), 0u);
  // Other names have nothing to do with it, and the right one goes on.
  v1::Open other = OpenHome(1, kSha256);
  other.set_repository("other");
  EXPECT_EQ(NameOf(OpenAndEnd(other)), "OK");
  EXPECT_EQ(NameOf(OpenAndEnd(OpenHome())), "OK");
  // Once it is dropped another one may begin.
  ASSERT_TRUE(WaitFor(index_->Drop({"home", DigestAlgorithm::kBlake3}, std::nullopt, 10)).ok());
  EXPECT_EQ(NameOf(OpenAndEnd(OpenHome(1, kSha256))), "OK");
}

// As of a kerfd that asked nobody: both go on.
TEST_F(ProtocolTest, WhoHasBegunTwoKeepsThem) {
  for (const DigestAlgorithm algorithm : {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256}) {
    ASSERT_TRUE(WaitFor(index_->AdvanceEpoch({"home", algorithm}, 1, 0)).ok());
  }
  EXPECT_EQ(NameOf(OpenAndEnd(OpenHome())), "OK");
  EXPECT_EQ(NameOf(OpenAndEnd(OpenHome(1, kSha256))), "OK");
  EXPECT_EQ(NameOf(Commit({EntryAt(std::string(32, 'd'), "here")}, 1, kSha256)), "OK");
  EXPECT_EQ(NameOf(OpenAndEnd(OpenHome(1, v1::DIGEST_ALGORITHM_XXH3_128))),
            "DIGEST_ALGORITHM_MISMATCH");
}

TEST_F(ProtocolTest, OnlyWhatIsWrittenIsHeldAgainstTheFence) {
  const std::string digest = DigestOf("a chunk");
  ASSERT_EQ(NameOf(Commit({EntryAt(digest, "here")})), "OK");
  ASSERT_EQ(NameOf(Advance(2)), "OK");
  // Open and lookups of a session behind it go on, and hits are DUPLICATE.
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  EXPECT_EQ(LocatorOf(digest, 1, &verdict), "here");
  EXPECT_EQ(verdict, v1::VERDICT_DUPLICATE);
  const auto duplicates = SendOne("a chunk");
  EXPECT_EQ(duplicates->ChunksOf(1)[0].verdict(), v1::VERDICT_DUPLICATE);
  EXPECT_TRUE(duplicates->WaitForDone(1));
  // So does a Commit of what is there already, which writes nothing.
  SendEntry(*duplicates, /*is_stale=*/false, digest, "elsewhere");
  EXPECT_TRUE(duplicates->WaitForAnswer(&v1::UploadAnswer::has_committed).has_value());
  EXPECT_EQ(EndOf(*duplicates), "OK");
  EXPECT_EQ(LocatorOf(digest), "here");
  // What writes is refused.
  const auto upload = SendOne("another chunk");
  ASSERT_TRUE(upload->CommitAnswered());
  const grpc::Status status = upload->WaitForEnd();
  EXPECT_EQ(NameOf(status), "EPOCH_BEHIND");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(NameOf(Commit({EntryAt(digest, "there")})), "EPOCH_BEHIND");
  EXPECT_EQ(NameOf(Advance(1)), "EPOCH_BEHIND");
  // It says once what to do.
  const std::string message = status.error_message();
  const std::size_t advice = message.find("read the store's epoch");
  EXPECT_NE(advice, std::string::npos) << message;
  EXPECT_EQ(message.find("read the store's epoch", advice + 1), std::string::npos) << message;
}

TEST_F(ProtocolTest, AStreamLearnsThatTheEpochHasRisen) {
  const std::string digest = DigestOf("a chunk");
  ASSERT_EQ(NameOf(Commit({EntryAt(digest, "here")})), "OK");
  const auto upload = SendOne("a chunk");
  const auto first = upload->WaitForAnswer(&v1::UploadAnswer::has_file_done);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->file_done().index_epoch(), 0u);
  ASSERT_EQ(NameOf(Advance(2)), "OK");
  // A Commit that asks the index, though it writes nothing.
  SendEntry(*upload, /*is_stale=*/false, digest, "elsewhere");
  const auto committed = upload->WaitForAnswer(&v1::UploadAnswer::has_committed);
  ASSERT_TRUE(committed.has_value());
  EXPECT_EQ(committed->committed().index_epoch(), 2u);
  ASSERT_EQ(NameOf(Advance(3)), "OK");
  ASSERT_TRUE(upload->SendFile("a chunk"));
  const auto second = upload->WaitForAnswer(&v1::UploadAnswer::has_file_done, 2);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(upload->ChunksOf(2)[0].verdict(), v1::VERDICT_DUPLICATE);
  EXPECT_EQ(second->file_done().index_epoch(), 3u);
  EXPECT_EQ(EndOf(*upload), "OK");
}

TEST_F(ProtocolTest, ALookupTellsTheIndexsEpoch) {
  const std::string digest = DigestOf("a chunk");
  ASSERT_EQ(NameOf(Commit({EntryAt(digest, "here")})), "OK");
  for (const std::uint64_t epoch : {0, 2}) {
    if (epoch > 0) {
      ASSERT_EQ(NameOf(Advance(epoch)), "OK");
    }
    v1::LookupChunksRequest request;
    *request.mutable_repository() = Home();
    request.set_store_epoch(1);
    request.add_digests(digest);
    request.add_digests(DigestOf("another chunk"));
    grpc::ClientContext context;
    v1::LookupChunksResponse response;
    ASSERT_EQ(NameOf(stub_->LookupChunks(&context, request, &response)), "OK");
    EXPECT_EQ(response.index_epoch(), epoch);
  }
}

// A frame of one field, of a number that no release has; "of a later release" is its content.
v1::UploadFrame LaterFrame() {
  v1::UploadFrame frame;
  frame.GetReflection()->MutableUnknownFields(&frame)->AddLengthDelimited(1'000,
                                                                          "of a later release");
  return frame;
}

TEST_F(ProtocolTest, AFrameOfALaterReleaseIsPassedOver) {
  TestUpload upload(channel_);
  v1::UploadRequest request;
  *request.add_frames() = LaterFrame();
  *request.add_frames()->mutable_open() = OpenHome();
  *request.add_frames() = LaterFrame();
  ASSERT_TRUE(upload.Send(request));
  request.Clear();
  request.add_frames()->mutable_file_begin();
  request.add_frames()->set_data("a ");
  *request.add_frames() = LaterFrame();
  request.add_frames()->set_data("chunk");
  v1::FileEnd& end = *request.add_frames()->mutable_file_end();
  end.set_size_bytes(7);
  end.set_content_hash(ContentHashOf("a chunk"));
  *request.add_frames() = LaterFrame();
  ASSERT_TRUE(upload.Send(request));
  EXPECT_EQ(EndOf(upload), "OK");
  EXPECT_EQ(upload.RecipeOf(1), PlainRecipe("a chunk", OpenHome()));
  // It opens no stream, and one that says nothing at all is a mistake.
  TestUpload unopened(channel_);
  request.Clear();
  *request.add_frames() = LaterFrame();
  request.add_frames()->mutable_file_begin();
  ASSERT_TRUE(unopened.Send(request));
  EXPECT_EQ(NameOf(unopened.WaitForEnd()), "FRAME_ORDER");
  TestUpload empty(channel_);
  ASSERT_TRUE(empty.SendFrame([](v1::UploadFrame& /*frame*/) {}));
  EXPECT_EQ(NameOf(empty.WaitForEnd()), "MALFORMED_MESSAGE");
}

TEST_F(ProtocolTest, FeaturesAreAnnounced) {
  const std::vector<std::string> expected = {"chunk-digests", "index-epoch", "shared-data",
                                             "unknown-frames"};
  const auto sorted = [](const auto& names) {
    std::vector<std::string> copy(names.begin(), names.end());
    std::sort(copy.begin(), copy.end());
    return copy;
  };
  TestUpload upload(channel_);
  v1::Open open = OpenHome();
  open.add_features("of-a-later-release");
  ASSERT_TRUE(upload.SendOpen(open));
  const auto opened = upload.WaitForAnswer(&v1::UploadAnswer::has_opened);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(sorted(opened->opened().features()), expected);
  grpc::ClientContext context;
  v1::GetCapabilitiesResponse capabilities;
  const auto stub = v1::ChunkingService::NewStub(channel_);
  ASSERT_EQ(NameOf(stub->GetCapabilities(&context, {}, &capabilities)), "OK");
  EXPECT_EQ(sorted(capabilities.features()), expected);
}

// What release 0.1.0 knows, and of each kind that came later the feature without whose name nobody
// is sent it: whoever adds a kind writes that here, too.
TEST_F(ProtocolTest, WhatCameBehind010HasAFeature) {
  const std::map<std::string, std::string> later = {{"chunk_digests", "chunk-digests"},
                                                    {"shared_data", "shared-data"}};
  const auto stub = v1::ChunkingService::NewStub(channel_);
  grpc::ClientContext context;
  v1::GetCapabilitiesResponse capabilities;
  ASSERT_EQ(NameOf(stub->GetCapabilities(&context, {}, &capabilities)), "OK");
  const std::vector<std::string> announced(capabilities.features().begin(),
                                           capabilities.features().end());
  const std::set<std::string> old = {"open",
                                     "file_begin",
                                     "data",
                                     "file_end",
                                     "commit",
                                     "report_stale",
                                     "drain",
                                     "opened",
                                     "chunks",
                                     "committed",
                                     "file_done",
                                     "go_away",
                                     "VERDICT_UNSPECIFIED",
                                     "VERDICT_NEW",
                                     "VERDICT_DUPLICATE",
                                     "VERDICT_UNVERIFIED"};
  std::vector<std::string> kinds;
  for (const auto* descriptor : {v1::UploadFrame::descriptor(), v1::UploadAnswer::descriptor()}) {
    for (int index = 0; index < descriptor->field_count(); ++index) {
      kinds.push_back(descriptor->field(index)->name());
    }
  }
  for (int index = 0; index < v1::Verdict_descriptor()->value_count(); ++index) {
    kinds.push_back(v1::Verdict_descriptor()->value(index)->name());
  }
  for (const std::string& kind : kinds) {
    if (old.contains(kind)) continue;
    ASSERT_TRUE(later.contains(kind)) << kind << " has no feature";
    EXPECT_NE(std::find(announced.begin(), announced.end(), later.at(kind)), announced.end())
        << kind << ": nobody announces " << later.at(kind);
  }
}

TEST_F(ProtocolTest, AStreamMayEndWithWhatIsNotCommitted) {
  const auto upload = SendOne("a chunk");
  EXPECT_EQ(upload->ChunksOf(1)[0].verdict(), v1::VERDICT_NEW);
  EXPECT_EQ(EndOf(*upload), "OK");
  for (const v1::UploadAnswer& answer : upload->answers()) EXPECT_FALSE(answer.has_file_done());
  EXPECT_EQ(LocatorOf(DigestOf("a chunk")), "");
}

TEST_F(ProtocolTest, TheFirstOfTwoStreamsCommits) {
  const auto one = SendOne("a chunk");
  const auto two = SendOne("a chunk");
  EXPECT_EQ(two->ChunksOf(1)[0].verdict(), v1::VERDICT_NEW);
  ASSERT_TRUE(one->CommitAnswered("first"));
  ASSERT_TRUE(one->WaitForDone(1));
  ASSERT_TRUE(two->CommitAnswered("second"));
  ASSERT_TRUE(two->WaitForDone(1));
  // The second one is not told so.
  EXPECT_EQ(two->WaitForAnswer(&v1::UploadAnswer::has_committed)->committed().entry_count(), 1u);
  EXPECT_EQ(LocatorOf(DigestOf("a chunk")), "first");
  // CommitChunks has the last word.
  ASSERT_EQ(NameOf(Commit({EntryAt(DigestOf("a chunk"), "third")})), "OK");
  EXPECT_EQ(LocatorOf(DigestOf("a chunk")), "third");
}

TEST_F(ProtocolTest, WhatIsUnverifiedIsReplaced) {
  ASSERT_EQ(NameOf(Commit({EntryAt(DigestOf("a chunk"), "first")})), "OK");
  const auto upload = SendOne("a chunk", /*epoch=*/2);
  EXPECT_EQ(upload->ChunksOf(1)[0].verdict(), v1::VERDICT_UNVERIFIED);
  ASSERT_TRUE(upload->CommitAnswered("second"));
  ASSERT_TRUE(upload->WaitForDone(1));
  EXPECT_EQ(LocatorOf(DigestOf("a chunk"), 2), "second");
}

TEST_F(ProtocolTest, AReportOfAnotherLocatorForgetsNothing) {
  const std::string digest = DigestOf("a chunk");
  ASSERT_EQ(NameOf(Commit({EntryAt(digest, "here")})), "OK");
  const auto upload = SendOne("a chunk");
  SendEntry(*upload, /*is_stale=*/true, digest, "elsewhere");
  // Its Commit is taken, and the entry keeps its place.
  SendEntry(*upload, /*is_stale=*/false, digest, "new place");
  EXPECT_TRUE(upload->WaitForAnswer(&v1::UploadAnswer::has_committed).has_value());
  EXPECT_EQ(LocatorOf(digest), "here");
  SendEntry(*upload, /*is_stale=*/true, digest, "here");
  SendEntry(*upload, /*is_stale=*/false, digest, "new place");
  EXPECT_TRUE(upload->WaitForAnswer(&v1::UploadAnswer::has_committed, 2).has_value());
  EXPECT_EQ(LocatorOf(digest), "new place");
  EXPECT_EQ(EndOf(*upload), "OK");
}

TEST_F(ProtocolTest, ADigestTwiceInOneCommit) {
  const std::string digest = DigestOf("a chunk");
  const auto upload = SendOne("a chunk");
  ASSERT_TRUE(upload->SendFrame([&](v1::UploadFrame& frame) {
    for (const char* const locator : {"first", "second"}) {
      v1::CommitEntry& entry = *frame.mutable_commit()->add_entries();
      entry.set_digest(digest);
      entry.set_locator(locator);
    }
  }));
  const auto committed = upload->WaitForAnswer(&v1::UploadAnswer::has_committed);
  ASSERT_TRUE(committed.has_value());
  EXPECT_EQ(committed->committed().entry_count(), 2u);
  EXPECT_EQ(LocatorOf(digest), "first");
  EXPECT_EQ(EndOf(*upload), "OK");
  ASSERT_EQ(NameOf(Commit({EntryAt(digest, "third"), EntryAt(digest, "fourth")})), "OK");
  EXPECT_EQ(LocatorOf(digest), "fourth");
}

TEST_F(ProtocolTest, AFileKeyMayBeEmptyAndTheSameTwice) {
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenHome()));
  v1::UploadRequest request;
  for (const std::string content : {"one", "two"}) {
    request.add_frames()->mutable_file_begin();
    request.add_frames()->set_data(content);
    v1::FileEnd& end = *request.add_frames()->mutable_file_end();
    end.set_size_bytes(content.size());
    end.set_content_hash(ContentHashOf(content));
  }
  ASSERT_TRUE(upload.Send(request));
  EXPECT_EQ(EndOf(upload), "OK");
  EXPECT_EQ(upload.RecipeOf(1), PlainRecipe("one", OpenHome()));
  EXPECT_EQ(upload.RecipeOf(2), PlainRecipe("two", OpenHome()));
}

TEST_F(ProtocolTest, AWorkerHoldsShardKeysToTheRuleOfFronts) {
  EXPECT_EQ(NameOf(OpenAndEnd(OpenHome(), "home/my files")), "OK");
  const std::string long_key(129, 'k');
  const grpc::Status refused = OpenAndEnd(OpenHome(), long_key);
  EXPECT_EQ(NameOf(refused), "BAD_FIELD");
  EXPECT_EQ(MetadataOf(refused, "field"), "kerf-shard-key");
  grpc::ClientContext context;
  context.AddMetadata("kerf-shard-key", long_key);
  v1::GetIndexStatsRequest request;
  *request.mutable_repository() = Home();
  v1::GetIndexStatsResponse response;
  EXPECT_EQ(NameOf(stub_->GetIndexStats(&context, request, &response)), "BAD_FIELD");
}

// The number that docs/spec/protocol.md gives to clients, of the largest entries that there are.
TEST_F(ProtocolTest, SoManyEntriesFitIntoOneCall) {
  constexpr int kSafeEntries = 16'384;
  constexpr std::size_t kGrpcDefaultBytes = std::size_t{4} << 20;
  std::vector<v1::IndexEntry> entries;
  v1::LookupChunksRequest request;
  *request.mutable_repository() = Home();
  request.set_store_epoch(1);
  for (int number = 0; number < kSafeEntries; ++number) {
    std::string digest(32, '\xff');
    digest[0] = static_cast<char>(number);
    digest[1] = static_cast<char>(number >> 8);
    entries.push_back(EntryAt(digest, std::string(64, '\xff'), 4'194'304));
    request.add_digests(digest);
  }
  EXPECT_EQ(NameOf(Commit(entries)), "OK");
  grpc::ClientContext context;
  v1::LookupChunksResponse response;
  ASSERT_EQ(NameOf(stub_->LookupChunks(&context, request, &response)), "OK");
  EXPECT_EQ(response.answers_size(), kSafeEntries);
  EXPECT_EQ(response.answers(kSafeEntries - 1).entry().locator().size(), 64u);
  EXPECT_LT(response.ByteSizeLong(), kGrpcDefaultBytes);
  // As many as are taken of short ones are more than fit of long ones: gRPC ends the call itself.
  const std::vector<v1::IndexEntry> copy = entries;
  for (int times = 1; times < 4; ++times) {
    entries.insert(entries.end(), copy.begin(), copy.end());
  }
  const grpc::Status status = Commit(entries);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(status.error_details().empty());
}

TEST_F(ProtocolTest, AMethodThatThereIsNotHasNoDetails) {
  grpc::TemplatedGenericStub<google::protobuf::MessageLite, google::protobuf::MessageLite> stub(
      channel_);
  grpc::ClientContext context;
  const v1::GetCapabilitiesRequest request;
  v1::GetCapabilitiesResponse response;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, "/kerf.v1.ChunkingService/OfALaterVersion", {}, &request, &response,
                 [&](const grpc::Status& status) { ended.set_value(status); });
  const grpc::Status status = ended.get_future().get();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(status.error_details().empty());
}

TEST_F(ProtocolTest, EachServiceIsAsHealthyAsTheServer) {
  const std::vector<std::string> services = {"", "kerf.v1.ChunkingService", "kerf.v1.IndexService",
                                             "kerf.v1.RepositoryService", "kerf.v1.StatusService"};
  for (const std::string& service : services) EXPECT_EQ(HealthOf(service), 1) << service;
  // Only a front has it.
  EXPECT_EQ(HealthOf("kerf.v1.RoutingService"), 0);
  EXPECT_EQ(HealthOf("kerf"), 0);
  server_->BeginDrain(std::chrono::milliseconds(0));
  for (const std::string& service : services) EXPECT_EQ(HealthOf(service), 2) << service;
}

}  // namespace
}  // namespace kerf
