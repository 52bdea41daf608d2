#include "server/hints/segment_recorder.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/random.h"
#include "base/test_seed.h"
#include "server/hints/testing/hints_test_util.h"

namespace kerf {
namespace {

// Opens all that it is given.
class KeepingStore final : public SegmentStore {
 public:
  struct Kept {
    std::vector<RunChunk> chunks;
    bool ended_by_eof = false;
    std::optional<SegmentId> next;
    std::vector<Digest> anchors;
  };

  KeepingStore(std::shared_ptr<const HintScope> scope, const RunKey& key)
      : scope_(std::move(scope)), key_(key) {}

  void FindByAnchor(const HintScope&, const Digest&, FindDone done) override { done(std::nullopt); }
  void Fetch(const HintScope&, const SegmentId&, FetchDone done) override { done(std::nullopt); }
  void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) override {
    EXPECT_EQ(scope.id(), scope_->id());
    for (const StoredSegment& stored : segments) {
      const auto segment = ParseSegment(stored.bytes);
      ASSERT_TRUE(segment.ok()) << segment.status();
      const auto run = OpenRun(key_, scope.repository(), scope.profile(), scope.digest_algorithm(),
                               segment->sealed_run);
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(segment->id(), stored.id);
      order.push_back(stored.id);
      kept[stored.id] = {{run->chunks().begin(), run->chunks().end()},
                         run->ended_by_eof(),
                         segment->next,
                         stored.anchors};
    }
    done(absl::OkStatus());
  }
  std::string_view backend_name() const override { return "keeping"; }

  std::vector<SegmentId> order;
  std::map<SegmentId, Kept> kept;

 private:
  const std::shared_ptr<const HintScope> scope_;
  const RunKey key_;
};

class SegmentRecorderTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kMaxHeldBytes = 4 << 20;

  SegmentRecorderTest() : store_(scope_, RunKey()) {
    HintCacheOptions options;
    options.today = [this] { return today_; };
    options.max_written_segments = 1'000;
    cache_ = HintCache::Create(std::move(options), &store_);
  }

  void RecordAll(SegmentRecorder& recorder, std::uint64_t number,
                 const std::vector<RunChunk>& chunks) {
    recorder.BeginFile(number, 0);
    for (const RunChunk& chunk : chunks) recorder.Add(chunk);
    recorder.EndFile();
    recorder.Done(number);
  }

  // All that was written are the segments of a file of these chunks.
  void ExpectWritten(const std::vector<RunChunk>& chunks) {
    EXPECT_EQ(ExpectChain(store_.order.front(), chunks), store_.order.size());
  }

  // The segments from that one on, of which there are as many as it returns, are those of the file.
  std::size_t ExpectChain(std::optional<SegmentId> id, const std::vector<RunChunk>& chunks) {
    std::vector<RunChunk> all;
    std::size_t count = 0;
    while (id.has_value()) {
      EXPECT_TRUE(store_.kept.contains(*id));
      const KeepingStore::Kept& kept = store_.kept[*id];
      EXPECT_LE(kept.chunks.size(), kMaxSegmentChunks);
      if (!all.empty()) {
        EXPECT_EQ(kept.chunks.front(), all.back());
        all.pop_back();
      }
      all.insert(all.end(), kept.chunks.begin(), kept.chunks.end());
      EXPECT_EQ(kept.anchors == AnchorsOf(kept.chunks, count == 0), true);
      EXPECT_EQ(kept.ended_by_eof, !kept.next.has_value());
      if (kept.next.has_value()) {
        EXPECT_GE(kept.chunks.size(), SegmentRecorder::kMinSegmentChunks);
      }
      id = kept.next;
      ++count;
    }
    EXPECT_EQ(all == chunks, true) << all.size() << " of " << chunks.size();
    return count;
  }

  Random random_{TestSeed()};
  std::uint32_t today_ = 20'000;
  std::shared_ptr<const HintScope> scope_ = TestScope();
  KeepingStore store_;
  std::shared_ptr<HintCache> cache_;
};

TEST_F(SegmentRecorderTest, AFileBecomesAChainOfSegments) {
  for (const std::size_t count : {std::size_t{16}, std::size_t{511}, std::size_t{1024},
                                  std::size_t{1025}, std::size_t{random_.Between(2'000, 9'000)}}) {
    store_.order.clear();
    SegmentRecorder recorder(cache_, scope_, kMaxHeldBytes);
    const auto chunks = RandomChunks(random_, count);
    RecordAll(recorder, 1, chunks);
    ExpectWritten(chunks);
    EXPECT_LE(recorder.memory_bytes(), 100'000u);
  }
}

TEST_F(SegmentRecorderTest, TheEndOfTheFileIsNeverTakenForACut) {
  SegmentRecorder recorder(cache_, scope_, kMaxHeldBytes);
  auto chunks = RandomChunks(random_, SegmentRecorder::kMinSegmentChunks);
  chunks.back().digest.bytes[14] = 0;
  ASSERT_TRUE(IsSegmentEnd(chunks.back().digest));
  RecordAll(recorder, 1, chunks);
  ASSERT_EQ(store_.order.size(), 1u);
  ExpectWritten(chunks);
  // And one more behind it.
  store_.order.clear();
  chunks.push_back(RandomChunks(random_, 1)[0]);
  RecordAll(recorder, 2, chunks);
  EXPECT_EQ(store_.order.size(), 2u);
  ExpectWritten(chunks);
}

TEST_F(SegmentRecorderTest, SmallFilesAreNotRecorded) {
  SegmentRecorder recorder(cache_, scope_, kMaxHeldBytes);
  RecordAll(recorder, 1, {});
  RecordAll(recorder, 2, RandomChunks(random_, kMinRecordedChunks - 1));
  EXPECT_TRUE(store_.order.empty());
  SegmentRecorder useless(cache_, TestScope("photos", "mincdc-8k", DigestAlgorithm::kXxh3_128),
                          kMaxHeldBytes);
  RecordAll(useless, 1, RandomChunks(random_, 100));
  EXPECT_TRUE(store_.order.empty());
}

TEST_F(SegmentRecorderTest, NothingIsWrittenBeforeItIsCommitted) {
  SegmentRecorder recorder(cache_, scope_, kMaxHeldBytes);
  const auto chunks = RandomChunks(random_, 5'000);
  constexpr std::uint64_t kStart = 1'000;
  recorder.BeginFile(1, kStart);
  std::uint64_t end_offset = kStart;
  std::uint64_t durable = 0;
  std::map<Digest, std::uint64_t> end_of;
  for (const RunChunk& chunk : chunks) {
    recorder.Add(chunk);
    end_offset += chunk.length_bytes;
    end_of[chunk.digest] = end_offset;
    if (random_.OneIn(100)) {
      durable = random_.Between(durable, end_offset);
      recorder.Committed(1, durable);
    }
    for (const SegmentId& id : store_.order) {
      ASSERT_LE(end_of[store_.kept[id].chunks.back().digest], durable);
      ASSERT_FALSE(store_.kept[id].ended_by_eof);
    }
  }
  EXPECT_GT(store_.order.size(), 0u);
  recorder.EndFile();
  recorder.Committed(1, end_offset - 1);
  EXPECT_FALSE(store_.kept[store_.order.back()].ended_by_eof);
  recorder.Committed(1, end_offset);
  ExpectWritten(chunks);
}

TEST_F(SegmentRecorderTest, FilesWaitForTheirOwnCommits) {
  SegmentRecorder recorder(cache_, scope_, kMaxHeldBytes);
  std::vector<std::vector<RunChunk>> files;
  for (std::uint64_t number = 0; number < 4; ++number) {
    files.push_back(RandomChunks(random_, 100));
    recorder.BeginFile(number, 0);
    for (const RunChunk& chunk : files.back()) recorder.Add(chunk);
    recorder.EndFile();
  }
  EXPECT_TRUE(store_.order.empty());
  for (const std::uint64_t number : {2, 0, 3, 1}) {
    store_.order.clear();
    recorder.Done(number);
    ASSERT_EQ(store_.order.size(), 1u);
    ExpectWritten(files[number]);
    recorder.Done(number);
    EXPECT_EQ(store_.order.size(), 1u);
  }
}

TEST_F(SegmentRecorderTest, WhatIsThereAlreadyIsNotWrittenAgain) {
  SegmentRecorder recorder(cache_, scope_, kMaxHeldBytes);
  auto chunks = RandomChunks(random_, 8'000);
  RecordAll(recorder, 1, chunks);
  const std::size_t first_count = store_.order.size();
  ASSERT_GE(first_count, 8u);
  store_.order.clear();
  RecordAll(recorder, 2, chunks);
  EXPECT_EQ(store_.order.size(), 0u);
  // Some chunks are put in in front, and one is changed in the middle: few segments differ.
  chunks[4'000] = RandomChunks(random_, 1)[0];
  const auto in_front = RandomChunks(random_, 10);
  chunks.insert(chunks.begin(), in_front.begin(), in_front.end());
  RecordAll(recorder, 3, chunks);
  EXPECT_GE(store_.order.size(), 2u);
  EXPECT_LT(store_.order.size(), first_count);
  const auto first_place = cache_->Find(*scope_, chunks[0].digest);
  ASSERT_TRUE(first_place.has_value());
  EXPECT_GE(ExpectChain(first_place->id, chunks), 8u);
  // Something behind the end: the last segment, and the one before it, which names it.
  store_.order.clear();
  chunks.push_back(RandomChunks(random_, 1)[0]);
  RecordAll(recorder, 4, chunks);
  EXPECT_GE(store_.order.size(), 1u);
  EXPECT_LE(store_.order.size(), 3u);
  EXPECT_GE(ExpectChain(first_place->id, chunks), 8u);
  // All of it once it is old.
  today_ += 7;
  store_.order.clear();
  RecordAll(recorder, 5, chunks);
  ExpectWritten(chunks);
}

TEST_F(SegmentRecorderTest, WhatWaitsIsBounded) {
  constexpr std::size_t kMaxWaitingBytes = 500'000;
  SegmentRecorder recorder(cache_, scope_, kMaxWaitingBytes);
  const auto chunks = RandomChunks(random_, 50'000);
  recorder.BeginFile(1, 0);
  for (const RunChunk& chunk : chunks) {
    recorder.Add(chunk);
    // And the segment in hand and the one before it.
    ASSERT_LE(recorder.memory_bytes(), kMaxWaitingBytes + 250'000);
  }
  recorder.EndFile();
  EXPECT_GT(recorder.dropped_count(), 10u);
  recorder.Done(1);
  EXPECT_GE(store_.order.size(), 3u);
  EXPECT_LE(recorder.memory_bytes(), 100'000u);
}

TEST_F(SegmentRecorderTest, BetweenFilesItHoldsNearlyNothing) {
  SegmentRecorder recorder(cache_, scope_, kMaxHeldBytes);
  for (std::uint64_t number = 0; number < 100; ++number) {
    recorder.BeginFile(number, 0);
    for (const RunChunk& chunk : RandomChunks(random_, 100)) recorder.Add(chunk);
    recorder.EndFile();
  }
  EXPECT_GT(recorder.memory_bytes(), 100u * 100u * sizeof(RunChunk));
  for (std::uint64_t number = 0; number < 100; ++number) recorder.Done(number);
  RecordAll(recorder, 200, RandomChunks(random_, 5'000));
  EXPECT_LE(recorder.memory_bytes(), 8'000u);
}

TEST_F(SegmentRecorderTest, OfAFileThatBreaksOffTheWholeSegmentsAreKept) {
  SegmentRecorder recorder(cache_, scope_, kMaxHeldBytes);
  const auto chunks = RandomChunks(random_, 3'000);
  recorder.BeginFile(1, 0);
  for (const RunChunk& chunk : chunks) recorder.Add(chunk);
  recorder.AbandonFile();
  recorder.Done(1);
  ASSERT_GE(store_.order.size(), 2u);
  std::size_t count = 0;
  for (const SegmentId& id : store_.order) {
    EXPECT_FALSE(store_.kept[id].ended_by_eof);
    count += store_.kept[id].chunks.size() - 1;
  }
  EXPECT_FALSE(store_.kept[store_.order.back()].next.has_value());
  EXPECT_GT(count, 3'000 - kMaxSegmentChunks - 1);
  RecordAll(recorder, 2, RandomChunks(random_, 20));
  EXPECT_TRUE(store_.kept[store_.order.back()].ended_by_eof);
}

TEST_F(SegmentRecorderTest, AFileOfOneChunkOverAndOver) {
  SegmentRecorder recorder(cache_, scope_, kMaxHeldBytes);
  const std::vector<RunChunk> zeros(5'000, RandomChunks(random_, 1)[0]);
  RecordAll(recorder, 1, zeros);
  const auto place = cache_->Find(*scope_, zeros[0].digest);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->index, 0u);
}

}  // namespace
}  // namespace kerf
