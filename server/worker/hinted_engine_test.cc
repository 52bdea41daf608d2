// Streams that follow hints: what they answer is what a plain chunker and the index say, whatever
// the hints are, and once a file is known it is neither scanned nor looked up chunk by chunk.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/fingerprint/xxh3.h"
#include "server/hints/memory_segment_store.h"
#include "server/index/memory_index.h"
#include "server/session/session.h"
#include "server/worker/testing/hinted_world.h"

namespace kerf {
namespace {

// Gives what it was given, or not, or something else of it.
class HostileStore final : public SegmentStore {
 public:
  explicit HostileStore(std::uint64_t seed) : random_(seed) {}

  void FindByAnchor(const HintScope& scope, const Digest& anchor, FindDone done) override {
    if (random_.OneIn(3) && !ids_.empty()) return done(ids_[random_.Below(ids_.size())]);
    store_->FindByAnchor(scope, anchor, std::move(done));
  }
  void Fetch(const HintScope& scope, const SegmentId& id, FetchDone done) override {
    store_->Fetch(scope, id, [&](const absl::StatusOr<std::optional<std::string>>& bytes) {
      if (!bytes.ok() || !bytes->has_value() || random_.OneIn(2)) return done(bytes);
      std::string other = **bytes;
      if (random_.OneIn(3)) other = written_[random_.Below(written_.size())];
      other[random_.Below(other.size())] ^= static_cast<char>(1 << random_.Below(8));
      done(std::optional(other));
    });
  }
  void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) override {
    for (const StoredSegment& segment : segments) {
      ids_.push_back(segment.id);
      written_.push_back(segment.bytes);
    }
    store_->Put(scope, std::move(segments), std::move(done));
  }
  std::string_view backend_name() const override { return "hostile"; }

 private:
  Random random_;
  std::unique_ptr<SegmentStore> store_ = CreateMemorySegmentStore(16u << 20);
  std::vector<SegmentId> ids_;
  std::vector<std::string> written_;
};

struct Case {
  const char* name;
  const char* profile;
  // Its rule is so fast that only lookups are saved.
  bool is_only_asked_ahead = false;
  bool is_late = false;

  friend std::ostream& operator<<(std::ostream& out, const Case& tested) {
    return out << tested.name;
  }
};

class HintedEngineTest : public HintedWorld, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override { Start(GetParam().profile, GetParam().is_late); }
};

TEST_P(HintedEngineTest, WhateverChangesTheAnswersAreThoseOfAPlainChunker) {
  std::vector<std::string> contents;
  for (const std::size_t size_bytes : {1'500'000, 10, 100'000, 600'000}) {
    contents.push_back(RandomBytes(size_bytes));
  }
  for (int version = 0; version < 6 && !HasFatalFailure(); ++version) {
    Upload(contents);
    for (std::string& content : contents) Edit(content);
    // Sometimes by another worker.
    if (random_.OneIn(3)) Follow(store_.get());
  }
  if (GetParam().is_only_asked_ahead) {
    EXPECT_EQ(totals_.bytes_skipped.load(), 0u);
  } else {
    EXPECT_GT(totals_.bytes_skipped.load(), totals_.bytes_scanned.load() / 4);
  }
}

TEST_P(HintedEngineTest, AKnownFileIsNeitherScannedNorAskedForChunkByChunk) {
  const std::vector<std::string> contents = {RandomBytes(8'000'000)};
  Upload(contents);
  ASSERT_FALSE(HasFatalFailure());
  for (const bool is_other_worker : {false, true}) {
    if (is_other_worker) Follow(store_.get());
    const std::uint64_t scanned_before = totals_.bytes_scanned.load();
    const std::uint64_t asked_before = totals_.lookups_asked.load();
    Upload(contents);
    ASSERT_FALSE(HasFatalFailure());
    if (!GetParam().is_only_asked_ahead) {
      EXPECT_LT(totals_.bytes_scanned.load() - scanned_before, contents[0].size() / 20);
    }
    // Some 4,000 chunks, 32 of them in a buffer.
    EXPECT_LT(totals_.lookups_asked.load() - asked_before, 20u);
  }
}

TEST_P(HintedEngineTest, AVerdictThatIsOldIsAskedForAnew) {
  auto now = std::chrono::steady_clock::now();
  context_.now = [&now] { return now += std::chrono::seconds(3); };
  const std::vector<std::string> contents = {RandomBytes(2'000'000)};
  Upload(contents);
  Upload(contents);
  EXPECT_GT(totals_.digests_asked_ahead.load(), 0u);
  EXPECT_EQ(totals_.lookups_foreseen.load(), 0u);
}

TEST_P(HintedEngineTest, AHostileStoreChangesNothing) {
  HostileStore store(random_.Next());
  std::vector<std::string> contents = {RandomBytes(1'500'000), RandomBytes(700'000)};
  for (int version = 0; version < 8 && !HasFatalFailure(); ++version) {
    Follow(&store);
    Upload(contents);
    for (std::string& content : contents) Edit(content);
  }
  context_.hints.reset();
}

// Who asks ahead asks for what comes, and not for the same again and again.
TEST_P(HintedEngineTest, LittleIsAskedForInVain) {
  std::vector<std::string> contents = {RandomBytes(6'000'000)};
  Upload(contents);
  ASSERT_FALSE(HasFatalFailure());
  const std::size_t chunk_count = committed_.size();
  for (int edit = 0; edit < 60; ++edit) contents[0].insert(random_.Below(contents[0].size()), "!");
  Upload(contents);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_LT(totals_.digests_asked_ahead.load(), 2 * chunk_count);

  // The hints know the file, and the index has lost it.
  const std::uint64_t asked_before = totals_.digests_asked_ahead.load();
  index_ = CreateMemoryIndex();
  context_.index = index_.get();
  committed_.clear();
  Upload(contents);
  EXPECT_LT(totals_.digests_asked_ahead.load() - asked_before, chunk_count / 4);
  pool_.reset();
}

// Of ten chunks from the one at `first` on, of those that end at `ends`.
v1::UploadRequest StaleReport(Bytes bytes, const std::vector<std::size_t>& ends, std::size_t first,
                              std::set<std::uint64_t>* stale_ends) {
  v1::UploadRequest stale;
  for (std::size_t index = first; index < first + 10; ++index) {
    const Digest digest = Fingerprint(
        DigestAlgorithm::kBlake3, bytes.subspan(ends[index - 1], ends[index] - ends[index - 1]));
    v1::CommitEntry& entry = *stale.add_frames()->mutable_report_stale()->add_entries();
    entry.set_digest(digest.bytes.data(), digest.bytes.size());
    entry.set_locator("pack");
    stale_ends->insert(ends[index]);
  }
  return stale;
}

// What was looked up ahead is forgotten with what the client has reported.
TEST_P(HintedEngineTest, WhatIsReportedStaleIsNotCalledADuplicateAnyMore) {
  const std::vector<std::string> contents = {RandomBytes(2'000'000)};
  Upload(contents);
  ASSERT_FALSE(HasFatalFailure());
  const Bytes bytes = AsBytes(contents[0]);
  const auto chunker = MakeChunker(ParseUploadProfile(profile_)->rule);
  std::vector<std::size_t> ends;
  for (std::size_t end = 0; end < bytes.size(); ends.push_back(end)) {
    end += chunker->NextCut(bytes.subspan(end));
  }
  // So much is known to go on that chunks behind it have been asked for ahead.
  const std::size_t half = ends[ends.size() / 2];
  const auto sink = std::make_shared<HeldSink>();
  const auto engine = StreamEngine::Create(&context_, "session", sink);
  v1::UploadRequest begin;
  *begin.add_frames()->mutable_open() = OpenOf(profile_, v1::DIGEST_ALGORITHM_BLAKE3);
  begin.add_frames()->mutable_file_begin();
  engine->Push(std::make_unique<RequestSource>(begin));
  const auto push = [&](std::size_t from, std::size_t to) {
    for (std::size_t at = from; at < to; at += 30'000) {
      v1::UploadRequest data;
      data.add_frames()->set_data(contents[0].substr(at, std::min<std::size_t>(30'000, to - at)));
      engine->Push(std::make_unique<RequestSource>(data));
    }
  };
  const auto wait_until = [&](auto is_so) {
    while (!is_so()) {
      ASSERT_FALSE(sink->final_status().has_value()) << *sink->final_status();
      if (sink->Take()) engine->AnswersTaken();
      sink->Pause();
    }
  };
  push(0, half);
  // Its turn is over, and counted.
  wait_until(
      [&] { return engine->expecting() == StreamEngine::Expecting::kFile && !engine->is_busy(); });
  ASSERT_FALSE(HasFatalFailure());
  if (!GetParam().is_late) {
    EXPECT_GT(totals_.digests_asked_ahead.load(), 0u);
  }
  std::set<std::uint64_t> stale_ends;
  const v1::UploadRequest stale = StaleReport(bytes, ends, ends.size() / 2 + 10, &stale_ends);
  engine->Push(std::make_unique<RequestSource>(stale));
  push(half, bytes.size());
  v1::UploadRequest end;
  end.add_frames()->mutable_file_end()->set_size_bytes(bytes.size());
  const ContentHash hash = Xxh3Of128(bytes);
  end.mutable_frames(0)->mutable_file_end()->set_content_hash(hash.data(), hash.size());
  engine->Push(std::make_unique<RequestSource>(end));
  wait_until([&] {
    const GotFiles so_far = ChunksOf(*sink, 1);
    return !so_far[0].empty() && so_far[0].back().end_offset == bytes.size();
  });
  ASSERT_FALSE(HasFatalFailure());
  const GotFiles got = ChunksOf(*sink, 1);
  for (const GotChunk& chunk : got[0]) {
    EXPECT_EQ(chunk.verdict,
              stale_ends.contains(chunk.end_offset) ? v1::VERDICT_NEW : v1::VERDICT_DUPLICATE)
        << chunk.end_offset;
  }
  sink->EndByTransport();
  engine->Cancel();
  while (context_.work_budget->used_bytes() > 0) std::this_thread::yield();
}

// Memory is short: what hints would take is given up before an upload is refused.
TEST_P(HintedEngineTest, HintsGiveWay) {
  MemoryBudget budget(kCutBufferBytes + 600'000);
  context_.work_budget = &budget;
  const std::vector<std::string> contents = {RandomBytes(3'000'000)};
  Upload(contents);
  Upload(contents);
  EXPECT_GT(totals_.bytes_scanned.load(), 0u);
  pool_.reset();
}

INSTANTIATE_TEST_SUITE_P(All, HintedEngineTest,
                         testing::Values(Case{"fastcdc2020", kProfile},
                                         Case{"late", kProfile, false, true},
                                         Case{"mincdc", "mincdc:min=1024,max=8192", true},
                                         Case{"rabin", "rabin:min=512,avg=2048,max=8192"}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace kerf
