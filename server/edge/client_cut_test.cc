// Files that their client has cut: by digests alone it is answered what it would be by bytes, and
// whoever names what cannot be is refused (docs/spec/protocol.md, "A client that cuts").
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kerf/v1/index.grpc.pb.h"
#include "kernels/profile.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/hints/hint_cache.h"
#include "server/hints/memory_segment_store.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

using Recipe = std::vector<RecipeChunk>;
using Fill = std::function<void(v1::UploadFrame&)>;

class ClientCutTest : public testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = {FreshSocketAddress()};
    options.watchdog_interval = std::chrono::milliseconds(0);
    options.hints = HintCache::Create(HintCacheOptions{}, segments_.get());
    auto server = Server::Start(options, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(server_->addresses()[0]);
  }
  void TearDown() override { server_->Stop(); }

  static v1::Open OpenNamed(std::string_view repository = "home", std::uint64_t epoch = 1) {
    v1::Open open = OpenFor(repository);
    open.set_store_epoch(epoch);
    open.set_cutter(v1::CUTTER_CLIENT);
    return open;
  }
  std::unique_ptr<TestUpload> Begin(const v1::Open& open) {
    auto upload = std::make_unique<TestUpload>(channel_);
    EXPECT_TRUE(upload->SendOpen(open));
    const auto opened = upload->WaitForAnswer(&v1::UploadAnswer::has_opened);
    EXPECT_TRUE(opened.has_value());
    EXPECT_EQ(opened.value_or(v1::UploadAnswer()).opened().cutter(), open.cutter());
    return upload;
  }
  std::string RandomBytes(std::size_t size_bytes) {
    std::string bytes(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  }
  // Another version of the content.
  std::string Edited(std::string content) {
    for (std::uint64_t edit = random_.Below(4); edit > 0 && !content.empty(); --edit) {
      const std::size_t at = random_.Below(content.size());
      const std::size_t count = random_.Between(1, 9000);
      if (random_.OneIn(2)) {
        content.insert(at, RandomBytes(count));
      } else {
        content.erase(at, count);
      }
    }
    return content;
  }

  // What a stream was answered, of all but what only bytes have.
  struct Told {
    std::vector<std::string> chunks;
    std::vector<std::string> done;
    friend bool operator==(const Told&, const Told&) = default;
  };
  // Sends the files, commits what they bring and ends.
  Told Backup(const v1::Open& open, const std::vector<std::string>& files) {
    const bool is_named = open.cutter() == v1::CUTTER_CLIENT;
    auto upload = Begin(open);
    for (std::size_t index = 0; index < files.size(); ++index) {
      const std::string& content = files[index];
      if (is_named) {
        EXPECT_TRUE(upload->SendNamed(PlainRecipe(content, open), random_.Below(5)));
      } else {
        EXPECT_TRUE(upload->SendFile(content, random_.OneIn(2) ? 0 : 50'000));
      }
      EXPECT_TRUE(content.empty() || upload->WaitForChunks(index + 1, content.size()));
    }
    EXPECT_TRUE(upload->CommitAnswered());
    EXPECT_TRUE(upload->WaitForDone(files.size()));
    upload->WritesDone();
    EXPECT_TRUE(upload->WaitForEnd().ok());
    Told told;
    for (const v1::UploadAnswer& answer : upload->answers()) {
      if (answer.has_file_done()) told.done.push_back(answer.file_done().SerializeAsString());
      for (v1::Chunk chunk : answer.chunks().chunks()) {
        EXPECT_EQ(chunk.check() == 0, is_named);
        chunk.clear_check();
        chunk.clear_locator();
        told.chunks.push_back(Cat(answer.chunks().file_number(), " ", chunk.SerializeAsString()));
      }
    }
    std::sort(told.done.begin(), told.done.end());
    return told;
  }

  // How a stream ends whose file is made of these frames.
  std::string EndOf(const std::vector<Fill>& frames, const v1::Open& open = OpenNamed()) {
    auto upload = Begin(open);
    for (const Fill& fill : frames) upload->SendFrame(fill);
    upload->WritesDone();
    const grpc::Status status = upload->WaitForEnd();
    return status.ok() ? "OK" : ReasonOf(status);
  }
  static void FillBegin(v1::UploadFrame& frame) { frame.mutable_file_begin(); }
  static Fill Named(const Recipe& recipe, std::uint64_t start_offset = 0) {
    return [=](v1::UploadFrame& frame) {
      *frame.mutable_chunk_digests() = DigestsOf(recipe, start_offset);
    };
  }
  static Fill End(std::uint64_t size_bytes, const std::string& content_hash) {
    return [=](v1::UploadFrame& frame) {
      frame.mutable_file_end()->set_size_bytes(size_bytes);
      frame.mutable_file_end()->set_content_hash(content_hash);
    };
  }
  // Chunks of these lengths, each of a digest of its own.
  static Recipe RecipeOfLengths(const std::vector<std::uint32_t>& lengths_bytes) {
    Recipe recipe;
    std::uint64_t offset = 0;
    for (const std::uint32_t length_bytes : lengths_bytes) {
      offset += length_bytes;
      recipe.push_back({offset, std::string(32, static_cast<char>(recipe.size() + 1)), 0});
    }
    return recipe;
  }

  grpc::Status Advance(std::uint64_t epoch) {
    v1::AdvanceEpochRequest request;
    request.mutable_repository()->set_repository("home");
    request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    request.set_store_epoch(epoch);
    grpc::ClientContext context;
    v1::AdvanceEpochResponse response;
    return v1::IndexService::NewStub(channel_)->AdvanceEpoch(&context, request, &response);
  }
  v1::LookupChunksResponse LookUp(const std::string& digest) {
    v1::LookupChunksRequest request;
    request.mutable_repository()->set_repository("home");
    request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    request.set_store_epoch(1);
    request.add_digests(digest);
    grpc::ClientContext context;
    v1::LookupChunksResponse response;
    EXPECT_TRUE(
        v1::IndexService::NewStub(channel_)->LookupChunks(&context, request, &response).ok());
    return response;
  }
  double Value(const std::string& series) const {
    metrics::Page page;
    server_->AddMetrics(page);
    const std::size_t at = page.text().find(Cat("\n", series, " "));
    return at == std::string::npos ? -1 : std::stod(page.text().substr(at + series.size() + 2));
  }

  Random random_{TestSeed()};
  std::unique_ptr<SegmentStore> segments_ = CreateMemorySegmentStore(std::size_t{16} << 20);
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ClientCutTest, OpenedSaysWhoCuts) {
  const auto opened_for = [&](int wanted, const std::string& profile) {
    TestUpload upload(channel_);
    v1::Open open = OpenFor("home", profile);
    open.set_cutter(static_cast<v1::Cutter>(wanted));
    upload.SendOpen(open);
    return upload.WaitForAnswer(&v1::UploadAnswer::has_opened)->opened();
  };
  const v1::Opened opened = opened_for(v1::CUTTER_CLIENT, "mincdc-8k");
  EXPECT_EQ(opened.cutter(), v1::CUTTER_CLIENT);
  EXPECT_EQ(opened.backend(), "");
  EXPECT_GE(opened.limits().max_named_bytes(), kMaxMaxBytes);
  EXPECT_EQ(opened_for(v1::CUTTER_CLIENT_UNLESS_GPU, "mincdc-8k").cutter(), v1::CUTTER_CLIENT);
  // Whoever does not ask, or asks for what nobody knows yet, is served as ever.
  for (const int wanted : {0, 3, 1'000'000}) {
    EXPECT_EQ(opened_for(wanted, "mincdc-8k").cutter(), v1::CUTTER_UNSPECIFIED);
    EXPECT_NE(opened_for(wanted, "mincdc-8k").backend(), "");
  }
}

TEST_F(ClientCutTest, ACriterionIsTheServers) {
  TestUpload upload(channel_);
  v1::Open open = OpenNamed();
  open.set_profile("fastcdc-8k+ff");
  upload.SendOpen(open);
  const auto opened = upload.WaitForAnswer(&v1::UploadAnswer::has_opened);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(opened->opened().cutter(), v1::CUTTER_UNSPECIFIED);
  EXPECT_EQ(opened->opened().limits().max_named_bytes(), 0u);
  EXPECT_NE(opened->opened().backend(), "");
}

// A hint holds bytes, and none came.
TEST_F(ClientCutTest, NamesTeachNoHint) {
  const std::string content = RandomBytes(2'000'000);
  for (int round = 0; round < 2; ++round) Backup(OpenNamed(), {content});
  Backup(OpenFor("home"), {content});
  EXPECT_EQ(Value("kerf_cut_bytes_total{how=\"scanned\"}"), 2'000'000);
  EXPECT_EQ(Value("kerf_cut_bytes_total{how=\"skipped\"}"), 0);
}

// Every named profile and digest algorithm, and versions of the same files.
TEST_F(ClientCutTest, IsAnsweredWhatBytesAre) {
  int number = 0;
  for (const NamedProfile& profile : NamedProfiles()) {
    SCOPED_TRACE(profile.name);
    std::vector<std::string> files = {"", "x", RandomBytes(random_.Below(3'000)),
                                      RandomBytes(random_.Below(400'000)),
                                      std::string(random_.Below(200'000), '\0')};
    v1::Open by_bytes = OpenFor(Cat("bytes-", number), profile.name);
    by_bytes.set_digest_algorithm(static_cast<v1::DigestAlgorithm>(1 + number % 3));
    v1::Open by_names = by_bytes;
    by_names.set_repository(Cat("names-", number++));
    by_names.set_cutter(v1::CUTTER_CLIENT);
    for (int version = 0; version < 3; ++version) {
      EXPECT_EQ(Backup(by_names, files), Backup(by_bytes, files));
      for (std::string& content : files) content = Edited(std::move(content));
    }
    // What one way has brought the other one finds.
    const std::vector<std::string> fresh = {RandomBytes(100'000)};
    Backup(by_names, fresh);
    v1::Open other = by_bytes;
    other.set_repository(by_names.repository());
    const Told told = Backup(other, fresh);
    v1::FileDone done;
    ASSERT_TRUE(done.ParseFromString(told.done.at(0)));
    EXPECT_EQ(done.new_chunk_count(), 0u);
  }
}

TEST_F(ClientCutTest, GoesOnFromACut) {
  const std::string content = RandomBytes(300'000);
  const Recipe recipe = PlainRecipe(content, OpenNamed());
  const std::size_t half = recipe.size() / 2;
  const std::uint64_t offset = recipe[half - 1].end_offset;
  const auto upload = Begin(OpenNamed());
  ASSERT_TRUE(upload->SendNamed({recipe.begin() + static_cast<std::ptrdiff_t>(half), recipe.end()},
                                0, offset));
  ASSERT_TRUE(upload->WaitForChunks(1, content.size()));
  const std::vector<v1::Chunk> chunks = upload->ChunksOf(1);
  ASSERT_EQ(chunks.size(), recipe.size() - half);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    EXPECT_EQ(chunks[index].digest(), recipe[half + index].digest);
    EXPECT_EQ(chunks[index].end_offset(), recipe[half + index].end_offset);
  }
  // The other way takes over where this one was lost.
  TestUpload bytes(channel_);
  bytes.SendOpen(OpenFor("home"));
  bytes.SendFile(content.substr(offset), 0, offset);
  ASSERT_TRUE(bytes.WaitForChunks(1, content.size()));
  EXPECT_EQ(bytes.RecipeOf(1), PlainRecipe(content.substr(offset), OpenFor("home"), offset));
}

TEST_F(ClientCutTest, ADrainAnswersWhatWasNamedAndDropsTheRest) {
  const Recipe recipe = PlainRecipe(RandomBytes(200'000), OpenNamed());
  const auto upload = Begin(OpenNamed());
  const std::size_t half = recipe.size() / 2;
  upload->SendFrame(FillBegin);
  upload->SendFrame(Named({recipe.begin(), recipe.begin() + static_cast<std::ptrdiff_t>(half)}));
  upload->SendFrame([](v1::UploadFrame& frame) { frame.mutable_drain()->set_drain_ms(60'000); });
  ASSERT_TRUE(upload->WaitForAnswer(&v1::UploadAnswer::has_go_away).has_value());
  EXPECT_EQ(upload->ChunksOf(1).size(), half);
  upload->SendFrame(Named({recipe.begin() + static_cast<std::ptrdiff_t>(half), recipe.end()},
                          recipe[half - 1].end_offset));
  ASSERT_TRUE(upload->CommitAnswered());
  const auto committed = upload->WaitForAnswer(&v1::UploadAnswer::has_committed);
  ASSERT_TRUE(committed.has_value());
  EXPECT_EQ(committed->committed().files(0).durable_offset(), recipe[half - 1].end_offset);
  upload->WritesDone();
  EXPECT_EQ(ReasonOf(upload->WaitForEnd()), "DRAINING");
  EXPECT_EQ(upload->ChunksOf(1).size(), half);
}

TEST_F(ClientCutTest, VerdictsFollowEpochsAndReports) {
  const std::string content = RandomBytes(60'000);
  const Recipe recipe = PlainRecipe(content, OpenNamed());
  Backup(OpenNamed(), {content});
  const auto verdicts = [&](std::uint64_t epoch) {
    const auto upload = Begin(OpenNamed("home", epoch));
    EXPECT_TRUE(upload->SendNamed(recipe));
    EXPECT_TRUE(upload->WaitForChunks(1, content.size()));
    std::vector<v1::Verdict> found;
    for (const v1::Chunk& chunk : upload->ChunksOf(1)) found.push_back(chunk.verdict());
    return found;
  };
  EXPECT_EQ(verdicts(1), std::vector<v1::Verdict>(recipe.size(), v1::VERDICT_DUPLICATE));
  EXPECT_EQ(verdicts(2), std::vector<v1::Verdict>(recipe.size(), v1::VERDICT_UNVERIFIED));
  ASSERT_TRUE(Advance(3).ok());
  const auto upload = Begin(OpenNamed("home", 3));
  for (const bool is_commit : {false, true}) {
    upload->SendFrame([&](v1::UploadFrame& frame) {
      v1::CommitEntry& entry = is_commit ? *frame.mutable_commit()->add_entries()
                                         : *frame.mutable_report_stale()->add_entries();
      entry.set_digest(recipe[0].digest);
      entry.set_locator(is_commit ? "there" : "here");
    });
  }
  ASSERT_TRUE(upload->WaitForAnswer(&v1::UploadAnswer::has_committed).has_value());
  EXPECT_EQ(LookUp(recipe[0].digest).answers(0).entry().locator(), "there");
  // One that lies behind goes on, and is told so.
  const auto behind = Begin(OpenNamed());
  ASSERT_TRUE(behind->SendNamed(recipe));
  const auto done = behind->WaitForAnswer(&v1::UploadAnswer::has_file_done);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->file_done().new_chunk_count(), 0u);
  EXPECT_EQ(done->file_done().index_epoch(), 3u);
}

// Whoever names another's chunk with a length that it has not finds nothing, and spoils nothing.
TEST_F(ClientCutTest, AFalseLengthIsAnotherChunk) {
  const std::string content = RandomBytes(100'000);
  Backup(OpenFor("home"), {content});
  Recipe recipe = PlainRecipe(content, OpenNamed());
  recipe.resize(1);
  const std::uint32_t length_bytes = static_cast<std::uint32_t>(recipe[0].end_offset);
  recipe[0].end_offset -= 1;
  const auto upload = Begin(OpenNamed());
  ASSERT_TRUE(upload->SendNamed(recipe));
  ASSERT_TRUE(upload->WaitForChunks(1, 1));
  EXPECT_EQ(upload->ChunksOf(1).at(0).verdict(), v1::VERDICT_NEW);
  EXPECT_EQ(upload->ChunksOf(1).at(0).locator(), "");
  ASSERT_TRUE(upload->CommitAnswered("elsewhere"));
  ASSERT_TRUE(upload->WaitForAnswer(&v1::UploadAnswer::has_committed).has_value());
  const v1::LookupChunksResponse found = LookUp(recipe[0].digest);
  EXPECT_EQ(found.answers(0).entry().length_bytes(), length_bytes);
  EXPECT_EQ(found.answers(0).entry().locator(), "here");
}

TEST_F(ClientCutTest, WhatCannotBeIsRefused) {
  const Recipe good = RecipeOfLengths({4096, 2048, 100});
  const Fill end = End(6244, NamedHashOf(good));
  EXPECT_EQ(EndOf({FillBegin, Named(good), end}), "OK");
  EXPECT_EQ(EndOf({FillBegin, End(0, NamedHashOf({}))}), "OK");
  // Order.
  EXPECT_EQ(EndOf({Named(good)}), "FRAME_ORDER");
  EXPECT_EQ(EndOf({FillBegin, Named(good), end, Named(good)}), "FRAME_ORDER");
  EXPECT_EQ(EndOf({FillBegin, Named(good)}), "UNFINISHED_FILE");
  EXPECT_EQ(EndOf({FillBegin, Named(good)}, OpenFor("home")), "FRAME_ORDER");
  const Fill data = [](v1::UploadFrame& frame) { frame.set_data("bytes"); };
  const Fill no_data = [](v1::UploadFrame& frame) { frame.set_data(""); };
  EXPECT_EQ(EndOf({FillBegin, data}), "FRAME_ORDER");
  EXPECT_EQ(EndOf({FillBegin, no_data}), "FRAME_ORDER");
  EXPECT_EQ(EndOf({FillBegin, Named(RecipeOfLengths({4096})), data}), "FRAME_ORDER");
  EXPECT_EQ(EndOf({FillBegin, data, Named(good)}, OpenFor("home")), "FRAME_ORDER");
  // Fields.
  const Fill empty = [](v1::UploadFrame& frame) { frame.mutable_chunk_digests(); };
  EXPECT_EQ(EndOf({FillBegin, empty}), "BAD_FIELD");
  for (const int more_bytes : {-32, -1, 1, 32}) {
    const Fill odd = [&](v1::UploadFrame& frame) {
      Named(good)(frame);
      std::string& digests = *frame.mutable_chunk_digests()->mutable_digests();
      digests.resize(static_cast<std::size_t>(std::ssize(digests) + more_bytes));
    };
    EXPECT_EQ(EndOf({FillBegin, odd}), "BAD_FIELD") << more_bytes;
  }
  const std::uint32_t too_long = ParseProfile(OpenNamed().profile())->max_bytes + 1;
  for (const std::vector<std::uint32_t>& lengths_bytes :
       {std::vector<std::uint32_t>{0}, {too_long}, {UINT32_MAX}, {100, 4096}}) {
    EXPECT_EQ(EndOf({FillBegin, Named(RecipeOfLengths(lengths_bytes))}), "BAD_FIELD");
  }
  EXPECT_EQ(EndOf({FillBegin, Named(good), Named(RecipeOfLengths({4096}))}), "BAD_FIELD");
  // The end is of what was named.
  EXPECT_EQ(EndOf({FillBegin, Named(good), End(6245, NamedHashOf(good))}), "SIZE_MISMATCH");
  const Recipe swapped = {good[1], good[0], good[2]};
  EXPECT_EQ(EndOf({FillBegin, Named(good), End(6244, NamedHashOf(swapped))}), "CONTENT_MISMATCH");
  EXPECT_EQ(EndOf({FillBegin, Named(good), End(6244, "")}), "BAD_FIELD");
}

TEST_F(ClientCutTest, SoMuchIsNamedAtOnce) {
  const SessionLimits limits;
  const std::vector<std::uint32_t> many(limits.max_commit_entries + 1, 2048);
  EXPECT_EQ(EndOf({FillBegin, Named(RecipeOfLengths(many))}), "TOO_MANY_ENTRIES");
  // Of one message, in however many frames.
  const std::uint32_t max_bytes = ParseProfile(OpenNamed().profile())->max_bytes;
  const auto end_of = [&](std::size_t chunk_count) {
    const auto upload = Begin(OpenNamed());
    v1::UploadRequest request;
    request.add_frames()->mutable_file_begin();
    for (std::size_t index = 0; index < chunk_count; ++index) {
      Named(RecipeOfLengths({max_bytes}))(*request.add_frames());
    }
    upload->Send(request);
    upload->WritesDone();
    return ReasonOf(upload->WaitForEnd());
  };
  EXPECT_EQ(end_of(limits.max_named_bytes / max_bytes), "UNFINISHED_FILE");
  EXPECT_EQ(end_of(limits.max_named_bytes / max_bytes + 1), "MESSAGE_TOO_LARGE");
}

// The quota of its repository would have no say in it: that message is read whatever is owed.
TEST_F(ClientCutTest, NothingIsNamedInTheMessageOfOpen) {
  TestUpload upload(channel_);
  v1::UploadRequest request;
  *request.add_frames()->mutable_open() = OpenNamed();
  FillBegin(*request.add_frames());
  Named(RecipeOfLengths({4096}))(*request.add_frames());
  upload.Send(request);
  upload.WritesDone();
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "FRAME_ORDER");
}

TEST_F(ClientCutTest, PendingChunksAreBounded) {
  const auto upload = Begin(OpenNamed());
  const std::vector<std::uint32_t> lengths_bytes(4096, 2048);
  const SessionLimits limits;
  for (std::uint32_t sent = 0; sent <= limits.max_uncommitted_chunks; sent += 4096) {
    if (!upload->SendNamed(RecipeOfLengths(lengths_bytes), 1024)) break;
  }
  EXPECT_EQ(ReasonOf(upload->WaitForEnd()), "TOO_MANY_UNCOMMITTED_CHUNKS");
}

// As if their bytes had come.
TEST_F(ClientCutTest, WhatIsNamedIsCounted) {
  const std::string content = RandomBytes(1'000'000);
  Backup(OpenNamed(), {content});
  EXPECT_GT(Value("kerf_ingest_bytes_total"), 1'000'000);
  EXPECT_LT(Value("kerf_ingest_bytes_total"), 1'100'000);
  EXPECT_EQ(Value("kerf_chunk_bytes_total{verdict=\"new\"}"), 1'000'000);
}

}  // namespace
}  // namespace kerf
