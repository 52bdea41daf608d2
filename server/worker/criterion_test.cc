// Streams with a criterion: their cuts depend on what is known, and whatever that is, the chunks
// are the file, within the rule's bounds, with their true digests and verdicts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/fingerprint/xxh3.h"
#include "kernels/rapid/run_seal.h"
#include "kernels/rapid/upload_profile.h"
#include "kernels/registry.h"
#include "server/errors/errors.h"
#include "server/hints/memory_segment_store.h"
#include "server/session/session.h"
#include "server/worker/testing/hinted_world.h"

namespace kerf {
namespace {

constexpr const char* kRule = "fastcdc2020:min=512,avg=2048,max=8192,level=1";

class CriterionTest : public HintedWorld, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { Start(GetParam(), /*is_late=*/false); }

  // What somebody who has the key could say of these chunks: other lengths, and other successors.
  void Lie(const std::vector<std::string>& contents) {
    const UploadProfile profile = *ParseUploadProfile(profile_);
    const auto chunker = MakeChunker(profile.rule);
    const auto scope =
        std::make_shared<const HintScope>(RepositoryId{"home", DigestAlgorithm::kBlake3}, profile);
    for (const std::string& content : contents) {
      std::vector<RunChunk> chunks;
      for (Bytes rest = AsBytes(content); !rest.empty();) {
        const Bytes piece = rest.first(chunker->NextCut(rest));
        rest = rest.subspan(piece.size());
        const auto said = static_cast<std::uint32_t>(
            random_.OneIn(3) ? piece.size() : random_.Between(1, 2 * profile.rule.max_bytes));
        chunks.push_back({Fingerprint(DigestAlgorithm::kBlake3, piece), said, piece.back()});
        context_.hints->LearnNext(*scope, chunks[random_.Below(chunks.size())].digest,
                                  {said, piece.back()});
        if (!rest.empty() && chunks.size() < kMaxSegmentChunks) continue;
        HintCache::NewSegment segment;
        const CutRun run = CutRun::OfHearsay(profile.rule, DigestAlgorithm::kBlake3,
                                             std::exchange(chunks, {}), random_.OneIn(2));
        segment.sealed_run = SealRun(key_, "home", run, profile.criterion);
        segment.run = std::make_shared<const CutRun>(run);
        context_.hints->Keep(scope, {std::move(segment)});
      }
    }
  }

  // What a stream with this Open ends with.
  absl::Status StatusAfter(const v1::Open& open) {
    const auto sink = std::make_shared<HeldSink>();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    v1::UploadRequest request;
    *request.add_frames()->mutable_open() = open;
    engine->Push(std::make_unique<RequestSource>(std::move(request)));
    engine->HalfClose();
    while (!sink->final_status().has_value()) sink->Pause();
    return *sink->final_status();
  }

  // Sends so much of the content from there on, commits what is answered, and breaks off. The
  // chunks that were answered, all of which are durable then.
  std::vector<GotChunk> UploadPart(const std::string& content, std::uint64_t begin,
                                   std::uint64_t end) {
    const auto sink = std::make_shared<HeldSink>();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    const std::string part = content.substr(begin, end - begin);
    v1::UploadRequest request;
    *request.add_frames()->mutable_open() = OpenOf(profile_, v1::DIGEST_ALGORITHM_BLAKE3);
    request.add_frames()->mutable_file_begin()->set_start_offset(begin);
    request.add_frames()->set_data(part);
    std::size_t held_back = 2 * ParseUploadProfile(profile_)->rule.max_bytes;
    if (end == content.size()) {
      held_back = 0;
      v1::FileEnd& file_end = *request.add_frames()->mutable_file_end();
      file_end.set_size_bytes(end);
      const ContentHash hash = Xxh3Of128(AsBytes(part));
      file_end.set_content_hash(hash.data(), hash.size());
    }
    engine->Push(std::make_unique<RequestSource>(std::move(request)));
    GotFiles got(1);
    while (got[0].empty() || got[0].back().end_offset + held_back < end) {
      if (sink->final_status().has_value()) ADD_FAILURE() << *sink->final_status();
      if (HasFailure()) return {};
      if (!sink->Take()) sink->Pause();
      got = ChunksOf(*sink, 1);
    }
    const std::vector<v1::UploadRequest> commits = CommitsOf(got);
    for (const v1::UploadRequest& commit : commits) {
      engine->Push(std::make_unique<RequestSource>(commit));
    }
    std::uint64_t durable_offset = commits.empty() ? end : begin;
    while (durable_offset < got[0].back().end_offset) {
      if (sink->final_status().has_value()) ADD_FAILURE() << *sink->final_status();
      if (HasFailure()) return {};
      if (!sink->Take()) sink->Pause();
      for (const v1::UploadAnswer& answer : sink->taken().answers()) {
        for (const auto& file : answer.committed().files()) durable_offset = file.durable_offset();
        if (answer.has_file_done()) durable_offset = end;
      }
    }
    engine->Cancel();
    while (context_.work_budget->used_bytes() > 0) std::this_thread::yield();
    return got[0];
  }
};

TEST_P(CriterionTest, WhateverChangesTheChunksAreTheFile) {
  std::vector<std::string> contents;
  for (const std::size_t size_bytes : {1'500'000, 10, 100'000, 9'000}) {
    contents.push_back(RandomBytes(size_bytes));
  }
  for (int version = 0; version < 6 && !HasFatalFailure(); ++version) {
    Upload(contents);
    for (std::string& content : contents) Edit(content);
    if (random_.OneIn(3)) Follow(store_.get());
  }
  EXPECT_GT(totals_.bytes_skipped.load(), totals_.bytes_scanned.load() / 4);
}

TEST_P(CriterionTest, HostileHintsOnlyMakeOddCuts) {
  std::vector<std::string> contents = {RandomBytes(1'500'000), RandomBytes(700'000),
                                       RandomBytes(20'000)};
  for (int version = 0; version < 6 && !HasFatalFailure(); ++version) {
    Lie(contents);
    Upload(contents);
    for (std::string& content : contents) Edit(content);
  }
  EXPECT_GT(totals_.hints_rejected.load(), 0u);
  // The other criteria do not believe everything.
  if (profile_.ends_with("+ff")) {
    EXPECT_GT(odd_cut_count_, 100u);
  }
}

// Cuts begin anew at what was committed: by another worker, which knows nothing of what the first
// one knew and cuts otherwise, and by one that knows all of it.
TEST_P(CriterionTest, GoesOnFromWhatIsDurable) {
  std::string content = RandomBytes(1'000'000);
  Upload({content});
  for (const bool is_other_worker : {true, false}) {
    Edit(content);
    const std::uint64_t broken_at = random_.Between(100'000, content.size() - 100'000);
    std::vector<GotChunk> recipe = UploadPart(content, 0, broken_at);
    ASSERT_FALSE(HasFailure());
    const auto known = context_.hints;
    const auto other_store = CreateMemorySegmentStore(kStoreBytes);
    if (is_other_worker) Follow(other_store.get());
    const std::uint64_t resumed_at = recipe.back().end_offset;
    ASSERT_LE(resumed_at, broken_at);
    const std::vector<GotChunk> rest = UploadPart(content, resumed_at, content.size());
    ASSERT_FALSE(HasFailure());
    recipe.insert(recipe.end(), rest.begin(), rest.end());
    std::uint64_t position = 0;
    for (const GotChunk& chunk : recipe) {
      ASSERT_GT(chunk.end_offset, position);
      const Bytes bytes = AsBytes(content).subspan(position, chunk.end_offset - position);
      ASSERT_EQ(chunk.digest, Fingerprint(DigestAlgorithm::kBlake3, bytes));
      ASSERT_LE(bytes.size(), ParseUploadProfile(profile_)->rule.max_bytes);
      position = chunk.end_offset;
    }
    ASSERT_EQ(position, content.size());
    context_.hints = known;
  }
}

TEST_P(CriterionTest, KnowsNothingOfWhatWasCutOtherwise) {
  const std::vector<std::string> contents = {RandomBytes(1'000'000)};
  profile_ = kRule;
  Upload(contents);
  profile_ = GetParam();
  Upload(contents);
  EXPECT_EQ(totals_.bytes_skipped.load(), 0u);
  Upload(contents);
  EXPECT_GT(totals_.bytes_skipped.load(), contents[0].size() / 2);
  EXPECT_EQ(odd_cut_count_, 0u);
}

// Files of fewer than 16 chunks have no segments.
TEST_P(CriterionTest, SizeListsLeadWhereThereAreNoSegments) {
  const std::vector<std::string> contents = {RandomBytes(14'000), RandomBytes(12'000)};
  for (const std::size_t max_sizes : {std::size_t{0}, SizeList::kDefaultSizes}) {
    HintCacheOptions options;
    options.key = key_;
    options.max_sizes = max_sizes;
    context_.hints = HintCache::Create(std::move(options), store_.get());
    Upload(contents);
    EXPECT_EQ(totals_.bytes_skipped.load(), 0u);
    Upload(contents);
    EXPECT_EQ(totals_.bytes_skipped.load() > 0, max_sizes > 0);
  }
  EXPECT_EQ(context_.hints->counters().held_segments, 0u);
  EXPECT_EQ(odd_cut_count_, 0u);
}

TEST_P(CriterionTest, IsRefusedWhereThereAreNoHints) {
  const v1::Open open = OpenOf(profile_, v1::DIGEST_ALGORITHM_BLAKE3);
  EXPECT_TRUE(StatusAfter(open).ok());
  EXPECT_EQ(ReasonNameOf(StatusAfter(OpenOf(profile_, v1::DIGEST_ALGORITHM_XXH3_128))),
            "CRITERION_NEEDS_HINTS");
  context_.hints = nullptr;
  const absl::Status status = StatusAfter(open);
  EXPECT_EQ(ReasonNameOf(status), "CRITERION_NEEDS_HINTS");
  EXPECT_NE(status.message().find("--hint-memory"), std::string::npos) << status;
}

INSTANTIATE_TEST_SUITE_P(All, CriterionTest,
                         testing::Values("fastcdc2020:min=512,avg=2048,max=8192,level=1+ff",
                                         "fastcdc2020:min=512,avg=2048,max=8192,level=1+ff-rwt",
                                         "fastcdc2020:min=512,avg=2048,max=8192,level=1+ff-mt",
                                         "mincdc:min=1024,max=8192+ff",
                                         "ram:window=1024,max=8192+ff-mt"));

}  // namespace
}  // namespace kerf
