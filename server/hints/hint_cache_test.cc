#include "server/hints/hint_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>

#include "base/random.h"
#include "base/test_seed.h"
#include "base/units.h"
#include "server/hints/hint_view.h"
#include "server/hints/memory_segment_store.h"
#include "server/hints/testing/hints_test_util.h"
#include "server/hints/testing/late_segment_store.h"

namespace kerf {
namespace {

using Segments = std::vector<HintCache::NewSegment>;
using Wanting = HintCache::Wanting;

class HintCacheTest : public ::testing::Test {
 protected:
  HintCacheTest() : store_(CreateMemorySegmentStore(64 * kMiB)), late_(store_.get()) {
    options_.now = [this] { return now_; };
    options_.today = [this] { return today_; };
  }

  std::shared_ptr<HintCache> NewCache() { return HintCache::Create(options_, &late_); }

  HintCache::NewSegment RandomSegment(std::size_t chunk_count) {
    return NewSegmentOf(*scope_, options_.key, RandomChunks(random_, chunk_count));
  }

  // Into the store, past every cache.
  void Store(const HintCache::NewSegment& segment) {
    store_->Put(*scope_, {Stored(segment)}, [](const absl::Status&) {});
  }

  // Segments in the store, each with the next one's id.
  Segments StoredChain(std::size_t count) {
    Segments segments;
    for (std::size_t number = 0; number < count; ++number) segments.push_back(RandomSegment(20));
    for (std::size_t number = 0; number < count; ++number) {
      if (number + 1 < count) segments[number].next = IdOf(segments[number + 1]);
      Store(segments[number]);
    }
    return segments;
  }

  static const Digest& DigestAt(const HintCache::NewSegment& segment, std::size_t index) {
    return segment.run->chunks()[index].digest;
  }

  Random random_{TestSeed()};
  std::chrono::steady_clock::time_point now_{std::chrono::hours(1)};
  std::uint32_t today_ = 20'000;
  std::shared_ptr<const HintScope> scope_ = TestScope();
  HintCacheOptions options_;
  const std::unique_ptr<SegmentStore> store_;
  LateSegmentStore late_;
};

TEST_F(HintCacheTest, EveryChunkOfASegmentIsFoundInItsScope) {
  const auto cache = NewCache();
  const auto segment = RandomSegment(50);
  cache->Keep(scope_, {segment});
  const std::vector<std::shared_ptr<const HintScope>> others = {
      TestScope("letters"), TestScope("photos", "rabin-8k"),
      TestScope("photos", "mincdc-8k", DigestAlgorithm::kSha256)};
  for (std::size_t index = 0; index < 50; ++index) {
    const auto place = cache->Find(*scope_, DigestAt(segment, index));
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->run, segment.run);
    EXPECT_EQ(place->index, index);
    EXPECT_EQ(place->id, IdOf(segment));
    for (const auto& other : others) {
      EXPECT_FALSE(cache->Find(*other, DigestAt(segment, index)).has_value());
    }
  }
  Digest unknown = DigestAt(segment, 0);
  unknown.bytes[31] ^= 1;  // Not among the bytes that the table looks at.
  EXPECT_FALSE(cache->Find(*scope_, unknown).has_value());
}

TEST_F(HintCacheTest, WhereMostFollowsIsFound) {
  const auto cache = NewCache();
  auto chunks = RandomChunks(random_, 30);
  chunks[10].digest = chunks[20].digest;
  const auto first = NewSegmentOf(*scope_, options_.key, chunks);
  // It begins with the first one's last chunk.
  auto following = RandomChunks(random_, 30);
  following[0] = chunks.back();
  const auto second = NewSegmentOf(*scope_, options_.key, following);
  for (const Segments& order : {Segments{first, second}, Segments{second, first}}) {
    cache->Keep(scope_, {order[0]});
    cache->Keep(scope_, {order[1]});
    EXPECT_EQ(cache->Find(*scope_, chunks[20].digest)->index, 10u);
    EXPECT_EQ(cache->Find(*scope_, chunks.back().digest)->id, IdOf(second));
  }
  // What came last counts.
  auto newer = RandomChunks(random_, 5);
  newer[1] = chunks[5];
  cache->Keep(scope_, {NewSegmentOf(*scope_, options_.key, newer)});
  EXPECT_EQ(cache->Find(*scope_, chunks[5].digest)->index, 1u);
  EXPECT_EQ(cache->Find(*scope_, chunks[6].digest)->index, 6u);
}

TEST_F(HintCacheTest, WhatIsNotUsedGoesFirst) {
  options_.capacity_bytes = 100'000;
  const auto cache = NewCache();
  const auto used = RandomSegment(100);
  const auto unused = RandomSegment(100);
  cache->Keep(scope_, {used, unused});
  for (int count = 0; count < 50; ++count) {
    const auto segment = RandomSegment(100);
    cache->Keep(scope_, {segment});
    late_.Deliver(1);
    EXPECT_TRUE(cache->Find(*scope_, DigestAt(segment, 99)).has_value());
    EXPECT_TRUE(cache->Find(*scope_, DigestAt(used, 50)).has_value());
    EXPECT_LE(cache->counters().held_bytes, options_.capacity_bytes);
  }
  for (std::size_t index = 0; index < 100; ++index) {
    EXPECT_FALSE(cache->Find(*scope_, DigestAt(unused, index)).has_value());
  }
  const HintCounters counters = cache->counters();
  EXPECT_GE(counters.held_segments, 10u);
  EXPECT_EQ(counters.held_segments + counters.evictions, 52u);
}

TEST_F(HintCacheTest, AnchorsOfOneSegmentAreOneFetch) {
  const auto cache = NewCache();
  auto segment = RandomSegment(30);
  segment.anchors = {DigestAt(segment, 3), DigestAt(segment, 9)};
  Store(segment);
  EXPECT_EQ(cache->Want(scope_, DigestAt(segment, 3)), Wanting::kAsked);
  EXPECT_EQ(cache->Want(scope_, DigestAt(segment, 3)), Wanting::kNothing);
  EXPECT_EQ(cache->Want(scope_, DigestAt(segment, 9)), Wanting::kAsked);
  EXPECT_TRUE(cache->IsOnItsWay(*scope_, DigestAt(segment, 3)));
  late_.Deliver(2);
  EXPECT_EQ(late_.waiting_count(), 1u);
  EXPECT_TRUE(cache->IsOnItsWay(*scope_, IdOf(segment)));
  EXPECT_FALSE(cache->Find(*scope_, DigestAt(segment, 3)).has_value());
  late_.Deliver(1);
  EXPECT_FALSE(cache->IsOnItsWay(*scope_, IdOf(segment)));
  EXPECT_TRUE(cache->Find(*scope_, DigestAt(segment, 17)).has_value());
  EXPECT_EQ(cache->Want(scope_, DigestAt(segment, 17)), Wanting::kHeld);
  const HintCounters counters = cache->counters();
  EXPECT_EQ(counters.anchors_asked, 2u);
  EXPECT_EQ(counters.anchors_found, 2u);
  EXPECT_EQ(counters.fetches, 1u);
  EXPECT_EQ(counters.fetches_found, 1u);
}

TEST_F(HintCacheTest, WhatIsMissingIsNotAskedForAgainForAWhile) {
  const auto cache = NewCache();
  const auto segment = RandomSegment(30);
  const Digest digest = segment.anchors[0];
  EXPECT_EQ(cache->Want(scope_, digest), Wanting::kAsked);
  late_.Deliver(1);
  Store(segment);
  now_ += options_.forget_absent_after - std::chrono::milliseconds(1);
  EXPECT_EQ(cache->Want(scope_, digest), Wanting::kNothing);
  now_ += std::chrono::milliseconds(1);
  EXPECT_EQ(cache->Want(scope_, digest), Wanting::kAsked);
  late_.Deliver(2);
  EXPECT_EQ(cache->Want(scope_, digest), Wanting::kHeld);
}

TEST_F(HintCacheTest, FetchesAreBounded) {
  options_.max_fetches = 5;
  const auto cache = NewCache();
  Segments segments;
  for (int count = 0; count < 20; ++count) {
    segments.push_back(RandomSegment(20));
    Store(segments.back());
    cache->Want(scope_, segments.back().anchors[0]);
  }
  EXPECT_EQ(late_.waiting_count(), 5u);
  EXPECT_EQ(cache->counters().fetches_over_limit, 15u);
  // An anchor and its segment may both be on their way, and then some are over the limit again.
  while (late_.waiting_count() > 0) {
    late_.Deliver(1);
    EXPECT_LE(late_.waiting_count(), 5u);
  }
  for (const auto& segment : segments) {
    cache->Want(scope_, segment.anchors[0]);
    late_.Deliver(2);
  }
  EXPECT_EQ(cache->counters().held_segments, 20u);
}

TEST_F(HintCacheTest, WritesAreBounded) {
  options_.max_written_segments = 3;
  const auto cache = NewCache();
  for (int count = 0; count < 10; ++count) cache->Keep(scope_, {RandomSegment(20)});
  EXPECT_EQ(late_.waiting_count(), 3u);
  EXPECT_EQ(cache->counters().segments_written, 3u);
  EXPECT_EQ(cache->counters().segments_over_limit, 7u);
  EXPECT_EQ(cache->counters().held_segments, 10u);
  late_.Deliver(3);
  // Of those that come together as many as there is room for.
  const Segments together = {RandomSegment(20), RandomSegment(20), RandomSegment(20),
                             RandomSegment(20)};
  cache->Keep(scope_, together);
  EXPECT_EQ(cache->counters().segments_written, 6u);
  late_.Deliver(1);
  // What the store does not have is not taken for written.
  EXPECT_TRUE(cache->FindSame(*scope_, together[2].run->chunks(), false)->is_fresh);
  EXPECT_FALSE(cache->FindSame(*scope_, together[3].run->chunks(), false)->is_fresh);
}

TEST_F(HintCacheTest, WhatCouldNotBeWrittenIsWrittenWhenItComesAgain) {
  class FullStore final : public SegmentStore {
   public:
    void FindByAnchor(const HintScope&, const Digest&, FindDone done) override {
      done(absl::UnavailableError("full"));
    }
    void Fetch(const HintScope&, const SegmentId&, FetchDone done) override {
      done(absl::UnavailableError("full"));
    }
    void Put(const HintScope&, std::vector<StoredSegment>, PutDone done) override {
      done(absl::UnavailableError("full"));
    }
    std::string_view backend_name() const override { return "full"; }
  };
  FullStore full;
  const auto cache = HintCache::Create(options_, &full);
  const auto segment = RandomSegment(20);
  cache->Keep(scope_, {segment});
  EXPECT_FALSE(cache->FindSame(*scope_, segment.run->chunks(), false)->is_fresh);
  EXPECT_EQ(cache->counters().segments_failed, 1u);
  EXPECT_EQ(cache->Want(scope_, RandomSegment(1).anchors[0]), Wanting::kAsked);
  EXPECT_EQ(cache->counters().fetches_failed, 1u);
}

TEST_F(HintCacheTest, WhatFollowsIsFetchedFourAhead) {
  const auto cache = NewCache();
  const Segments chain = StoredChain(8);
  HintView view(cache, scope_);
  EXPECT_EQ(view.Find(DigestAt(chain[0], 4)).state, Hint::State::kAbsent);
  view.Duplicates(std::vector<Digest>{DigestAt(chain[0], 0)}, true);
  EXPECT_EQ(view.Find(DigestAt(chain[0], 0)).state, Hint::State::kLate);
  late_.Deliver(2);
  EXPECT_EQ(cache->counters().held_segments, 1u);

  Hint hint = view.Find(DigestAt(chain[0], 4));
  EXPECT_EQ(hint.state, Hint::State::kReady);
  EXPECT_EQ(hint.next_index, 5u);
  EXPECT_EQ(late_.waiting_count(), 1u);
  // At its end the next one is late, also for what comes behind it, and then it is there.
  EXPECT_EQ(view.Find(DigestAt(chain[0], 19)).state, Hint::State::kLate);
  EXPECT_EQ(view.Find(DigestAt(chain[1], 0)).state, Hint::State::kLate);
  late_.Deliver(1);
  hint = view.Find(DigestAt(chain[1], 1));
  EXPECT_EQ(hint.state, Hint::State::kReady);
  // One after another, without anybody asking.
  EXPECT_EQ(late_.waiting_count(), 1u);
  late_.Deliver(9);
  EXPECT_EQ(cache->counters().held_segments, 5u);
  for (std::size_t index = 2; index < 6; ++index) {
    view.Find(DigestAt(chain[1], index));
    late_.Deliver(index % 2);
  }
  EXPECT_EQ(cache->counters().held_segments, 6u);
  EXPECT_FALSE(cache->Find(*scope_, DigestAt(chain[6], 0)).has_value());
  EXPECT_EQ(cache->counters().hints_late, 3u);
  // Nothing is waited for behind the last one.
  view.Find(DigestAt(chain[3], 0));
  late_.Deliver(9);
  EXPECT_EQ(view.Find(DigestAt(chain[7], 19)).state, Hint::State::kReady);
  EXPECT_EQ(late_.waiting_count(), 0u);
}

TEST_F(HintCacheTest, ALoopOfSegmentsEnds) {
  const auto cache = NewCache();
  Segments chain = StoredChain(2);
  chain[1].next = IdOf(chain[0]);
  cache->Keep(scope_, chain);
  cache->WantFollowing(scope_, IdOf(chain[0]));
  chain[0].next = IdOf(chain[0]);
  cache->Keep(scope_, {chain[0]});
  cache->WantFollowing(scope_, IdOf(chain[0]));
  EXPECT_EQ(cache->counters().fetches, 0u);
}

TEST_F(HintCacheTest, WhatIsNotSealedForItIsRefused) {
  const auto cache = NewCache();
  const auto wanted = RandomSegment(30);
  const auto other = RandomSegment(30);
  RunKey other_key;
  other_key.bytes.fill(9);
  const auto forged = NewSegmentOf(*scope_, other_key, RandomChunks(random_, 30));
  const auto elsewhere =
      NewSegmentOf(*TestScope("letters"), options_.key, RandomChunks(random_, 30));
  std::string damaged = Stored(wanted).bytes;
  damaged[random_.Between(6, damaged.size() - 1)] ^= 1;
  // In the place of the one that is wanted: as both what the anchor leads to and the segment.
  for (const std::string& bytes :
       {Stored(other).bytes, Stored(forged).bytes, Stored(elsewhere).bytes, damaged, std::string(),
        std::string(kMaxSegmentBytes + 1, 'x'), Stored(wanted).bytes.substr(0, 100)}) {
    const auto before = cache->counters();
    StoredSegment hostile = Stored(wanted);
    hostile.bytes = bytes;
    const auto parsed = ParseSegment(bytes);
    for (const bool has_own_id : {false, true}) {
      if (has_own_id && parsed.ok()) hostile.id = parsed->id();
      store_->Put(*scope_, {hostile}, [](const absl::Status&) {});
      cache->Want(scope_, wanted.anchors[0]);
      late_.Deliver(2);
      now_ += options_.forget_absent_after;
    }
    EXPECT_EQ(cache->counters().fetches_refused, before.fetches_refused + 2);
    EXPECT_EQ(cache->counters().held_segments, 0u);
  }
  Store(wanted);
  cache->Want(scope_, wanted.anchors[0]);
  late_.Deliver(2);
  EXPECT_TRUE(cache->Find(*scope_, DigestAt(wanted, 7)).has_value());
}

TEST_F(HintCacheTest, WhatLiesInThePlaceOfWhatFollowsIsRefused) {
  const auto cache = NewCache();
  const Segments chain = StoredChain(3);
  cache->Keep(scope_, {chain[0]});
  StoredSegment swapped = Stored(chain[2]);
  swapped.id = IdOf(chain[1]);
  store_->Put(*scope_, {swapped}, [](const absl::Status&) {});
  cache->WantFollowing(scope_, IdOf(chain[0]));
  late_.Deliver(9);
  EXPECT_EQ(cache->counters().fetches_refused, 1u);
  EXPECT_EQ(cache->counters().held_segments, 1u);
  // Once is enough.
  cache->WantFollowing(scope_, IdOf(chain[0]));
  EXPECT_EQ(late_.waiting_count(), 0u);
}

TEST_F(HintCacheTest, ManyChunksUnderOneSealAreRefused) {
  const auto cache = NewCache();
  const auto segment = NewSegmentOf(*scope_, options_.key, RandomChunks(random_, 1025));
  StoredSegment stored;
  stored.id = IdOf(segment);
  // As EncodeSegment would if it did.
  stored.bytes = std::string("\x01\x00....", 6) +
                 std::string(segment.sealed_run.begin(), segment.sealed_run.end());
  stored.anchors = {DigestAt(segment, 0)};
  store_->Put(*scope_, {stored}, [](const absl::Status&) {});
  cache->Want(scope_, DigestAt(segment, 0));
  late_.Deliver(2);
  EXPECT_EQ(cache->counters().fetches_refused, 1u);
  EXPECT_EQ(cache->counters().held_segments, 0u);
}

TEST_F(HintCacheTest, FetchesThatOutliveItComeToNothing) {
  auto cache = NewCache();
  const auto segment = RandomSegment(30);
  Store(segment);
  cache->Want(scope_, segment.anchors[0]);
  cache->Keep(scope_, {RandomSegment(30)});
  cache.reset();
  EXPECT_EQ(late_.waiting_count(), 2u);
  late_.Deliver(9);
}

TEST_F(HintCacheTest, TheSameRunIsKnownAndGrowsOld) {
  const auto cache = NewCache();
  auto segment = RandomSegment(30);
  segment.next.emplace().bytes.fill(1);
  cache->Keep(scope_, {segment});
  const std::vector<RunChunk> chunks(segment.run->chunks().begin(), segment.run->chunks().end());
  const auto known = cache->FindSame(*scope_, chunks, false);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->id, IdOf(segment));
  EXPECT_EQ(known->next, segment.next);
  EXPECT_TRUE(known->is_fresh);
  EXPECT_FALSE(cache->FindSame(*scope_, chunks, true).has_value());
  EXPECT_FALSE(cache->FindSame(*TestScope("letters"), chunks, false).has_value());
  EXPECT_FALSE(cache->FindSame(*scope_, std::span(chunks).first(29), false).has_value());
  today_ += options_.rewrite_after_days - 1;
  EXPECT_TRUE(cache->FindSame(*scope_, chunks, false)->is_fresh);
  today_ += 1;
  EXPECT_FALSE(cache->FindSame(*scope_, chunks, false)->is_fresh);
  cache->Keep(scope_, {segment});
  EXPECT_TRUE(cache->FindSame(*scope_, chunks, false)->is_fresh);
  // Of a clock that was wrong.
  today_ -= 1;
  EXPECT_FALSE(cache->FindSame(*scope_, chunks, false)->is_fresh);
  EXPECT_EQ(cache->counters().held_segments, 1u);
}

TEST_F(HintCacheTest, WithoutAStoreItRemembersAllTheSame) {
  const auto cache = HintCache::Create(options_, nullptr);
  const auto segment = RandomSegment(30);
  cache->Keep(scope_, {segment});
  EXPECT_EQ(cache->Want(scope_, segment.anchors[0]), Wanting::kNothing);
  cache->WantFollowing(scope_, IdOf(segment));
  EXPECT_TRUE(cache->Find(*scope_, DigestAt(segment, 3)).has_value());
}

TEST(HintCacheThreads, ManyUseItWhileItEvicts) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 400;
  const std::uint64_t seed = TestSeed();
  const std::vector<std::shared_ptr<const HintScope>> scopes = {TestScope("a"), TestScope("b")};
  const auto store = CreateMemorySegmentStore(kMiB);
  HintCacheOptions options;
  options.capacity_bytes = 50'000;
  options.max_fetches = 3;
  options.forget_absent_after = std::chrono::milliseconds(0);
  const auto cache = HintCache::Create(options, store.get());
  // Chains that overlap, the same in both scopes: 40 segments of 30 chunks, of which 20 fit.
  Random random(seed);
  const auto chunks = RandomChunks(random, 20 * 29 + 1);
  std::vector<Segments> segments;
  for (const auto& scope : scopes) {
    Segments& chain = segments.emplace_back();
    for (std::size_t begin = 0; begin + 30 <= chunks.size(); begin += 29) {
      const auto at = chunks.begin() + static_cast<std::ptrdiff_t>(begin);
      chain.push_back(NewSegmentOf(*scope, options.key, {at, at + 30}));
    }
    for (std::size_t index = 0; index + 1 < chain.size(); ++index) {
      chain[index].next = IdOf(chain[index + 1]);
    }
  }
  std::atomic<std::uint64_t> found{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      Random own(seed + static_cast<std::uint64_t>(number) + 1);
      const std::size_t which = own.Below(2);
      HintView view(cache, scopes[which]);
      for (int round = 0; round < kRounds; ++round) {
        const auto& segment = segments[which][own.Below(segments[which].size())];
        if (own.OneIn(3)) cache->Keep(scopes[which], {segment});
        const RunChunk& chunk = chunks[own.Below(chunks.size())];
        view.Duplicates(std::span(&chunk.digest, 1), true);
        const Hint hint = view.Find(chunk.digest);
        if (hint.run == nullptr) continue;
        ASSERT_GE(hint.next_index, 1u);
        ASSERT_LE(hint.next_index, hint.run->chunks().size());
        EXPECT_EQ(hint.run->chunks()[hint.next_index - 1], chunk);
        found.fetch_add(1);
        const auto known = cache->FindSame(*scopes[which], segment.run->chunks(), false);
        if (known.has_value()) {
          EXPECT_EQ(known->id, IdOf(segment));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(found.load(), 0u);
  const HintCounters counters = cache->counters();
  EXPECT_GT(counters.evictions, 0u);
  EXPECT_GT(counters.fetches_found, 0u);
  EXPECT_EQ(counters.fetches_refused, 0u);
  EXPECT_LE(counters.held_bytes, options.capacity_bytes);
}

}  // namespace
}  // namespace kerf
