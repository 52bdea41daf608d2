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

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/registry.h"
#include "server/hints/hint_cache.h"
#include "server/hints/memory_segment_store.h"
#include "server/index/async_index.h"
#include "server/index/memory_index.h"
#include "server/index/testing/late_index.h"
#include "server/worker/rapid_totals.h"
#include "server/worker/stream_engine.h"
#include "server/worker/testing/engine_client.h"

namespace kerf {
namespace {

constexpr std::size_t kStoreBytes = 16u << 20;
constexpr std::size_t kMaxEntries = 1000;

struct GotChunk {
  std::uint64_t end_offset = 0;
  Digest digest;
  v1::Verdict verdict = v1::VERDICT_NEW;
};
using GotFiles = std::vector<std::vector<GotChunk>>;

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
  std::unique_ptr<SegmentStore> store_ = CreateMemorySegmentStore(kStoreBytes);
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

class HintedEngineTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::size_t kCutBufferBytes = 64 * 1024;

  void SetUp() override {
    context_.index = &inline_index_;
    if (GetParam().is_late) {
      late_index_.emplace(index_.get(), random_.Next());
      context_.index = &*late_index_;
    }
    context_.pool = &*pool_;
    context_.input_budget = &input_budget_;
    context_.work_budget = &work_budget_;
    context_.buffers = &buffers_;
    context_.max_cut_buffer_bytes = kCutBufferBytes;
    context_.rapid_totals = &totals_;
    context_.asks_ahead = true;
    Follow(store_.get());
  }
  void TearDown() override {
    if (late_index_.has_value()) late_index_->Close();
    pool_.reset();
    late_index_.reset();
    EXPECT_EQ(work_budget_.used_bytes(), 0u);
  }

  // A worker that knows nothing yet, with this store.
  void Follow(SegmentStore* store) {
    HintCacheOptions options;
    options.key = key_;
    context_.hints = HintCache::Create(std::move(options), store);
  }

  std::string RandomBytes(std::size_t size_bytes) {
    std::string bytes(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  }

  // Another version of the content.
  void Edit(std::string& content) {
    for (std::uint64_t edit = random_.Below(8); edit > 0; --edit) {
      const std::size_t at = random_.Below(content.size());
      const std::size_t count = random_.Between(1, random_.OneIn(4) ? 20'000 : 100);
      switch (random_.Below(4)) {
        case 0:
          content.insert(at, RandomBytes(count));
          break;
        case 1:
          content.erase(at, std::min(count, content.size() - 1));
          break;
        case 2:
          content.replace(at, std::min(count, content.size() - at), RandomBytes(count));
          break;
        default:
          // A part once more.
          content.insert(random_.Below(content.size()), content.substr(at, 5 * count));
      }
    }
  }

  // Uploads and commits everything, and checks it against the chunker and what is committed.
  void Upload(const std::vector<std::string>& contents) {
    std::vector<File> files(contents.size());
    for (std::size_t index = 0; index < files.size(); ++index)
      files[index].content = contents[index];
    const auto sink = std::make_shared<HeldSink>();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    const v1::Open open = OpenOf(GetParam().profile, v1::DIGEST_ALGORITHM_BLAKE3);
    for (v1::UploadRequest& message : MakeMessages(random_, files, open)) {
      engine->Push(std::make_unique<RequestSource>(std::move(message)));
      if (random_.OneIn(4) && sink->Take()) engine->AnswersTaken();
    }
    GotFiles got;
    const auto is_answered = [&] {
      if (sink->Take()) engine->AnswersTaken();
      got = ChunksOf(*sink, contents.size());
      for (std::size_t index = 0; index < contents.size(); ++index) {
        const std::uint64_t end = got[index].empty() ? 0 : got[index].back().end_offset;
        if (end < contents[index].size()) return false;
      }
      return true;
    };
    while (!is_answered()) {
      ASSERT_FALSE(sink->final_status().has_value()) << *sink->final_status();
      sink->Pause();
    }
    Check(contents, got);
    for (v1::UploadRequest& commit : CommitsOf(got)) {
      engine->Push(std::make_unique<RequestSource>(std::move(commit)));
    }
    engine->HalfClose();
    while (!sink->final_status().has_value()) {
      if (sink->Take()) engine->AnswersTaken();
      sink->Pause();
    }
    ASSERT_TRUE(sink->final_status()->ok()) << *sink->final_status();
    // It counts what it has cut when it goes, and then gives its memory back.
    while (context_.work_budget->used_bytes() > 0) std::this_thread::yield();
  }

  static GotFiles ChunksOf(const HeldSink& sink, std::size_t file_count) {
    GotFiles got(file_count);
    for (const v1::UploadAnswer& answer : sink.taken().answers()) {
      for (const v1::Chunk& chunk : answer.chunks().chunks()) {
        GotChunk& own = got[answer.chunks().file_number() - 1].emplace_back();
        own.end_offset = chunk.end_offset();
        std::copy(chunk.digest().begin(), chunk.digest().end(), own.digest.bytes.begin());
        own.verdict = chunk.verdict();
      }
    }
    return got;
  }

  void Check(const std::vector<std::string>& contents, const GotFiles& got) {
    const Profile profile = *ParseProfile(GetParam().profile);
    const auto chunker = MakeChunker(profile);
    for (std::size_t file = 0; file < contents.size(); ++file) {
      std::size_t position = 0;
      for (const GotChunk& chunk : got[file]) {
        const Bytes rest = AsBytes(contents[file]).subspan(position);
        const std::size_t length = chunker->NextCut(rest);
        position += length;
        ASSERT_EQ(chunk.end_offset, position) << "file " << file;
        ASSERT_EQ(chunk.digest, Fingerprint(DigestAlgorithm::kBlake3, rest.first(length)));
        ASSERT_EQ(chunk.verdict,
                  committed_.contains(chunk.digest.bytes) ? v1::VERDICT_DUPLICATE : v1::VERDICT_NEW)
            << "file " << file << " at " << position;
      }
      ASSERT_EQ(position, contents[file].size());
    }
  }

  std::vector<v1::UploadRequest> CommitsOf(const GotFiles& got) {
    std::vector<v1::UploadRequest> commits;
    for (const auto& chunks : got) {
      for (const GotChunk& chunk : chunks) {
        if (!committed_.insert(chunk.digest.bytes).second) continue;
        if (commits.empty() ||
            commits.back().frames(0).commit().entries_size() == static_cast<int>(kMaxEntries)) {
          commits.emplace_back().add_frames()->mutable_commit();
        }
        v1::CommitEntry& entry = *commits.back().mutable_frames(0)->mutable_commit()->add_entries();
        entry.set_digest(chunk.digest.bytes.data(), chunk.digest.bytes.size());
        entry.set_locator("pack");
      }
    }
    return commits;
  }

  Random random_{TestSeed()};
  RunKey key_{};
  std::unique_ptr<SegmentStore> store_ = CreateMemorySegmentStore(kStoreBytes);
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  InlineIndex inline_index_{index_.get()};
  std::optional<LateIndex> late_index_;
  MemoryBudget input_budget_{64u << 20};
  MemoryBudget work_budget_{64u << 20};
  BufferPool buffers_{kCutBufferBytes, 1};
  std::optional<ThreadPool> pool_{std::in_place, 2};
  RapidTotals totals_;
  EngineContext context_;
  std::set<decltype(Digest::bytes)> committed_;
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
  InlineIndex empty(index_.get());
  context_.index = &empty;
  committed_.clear();
  Upload(contents);
  EXPECT_LT(totals_.digests_asked_ahead.load() - asked_before, chunk_count / 4);
  pool_.reset();
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
