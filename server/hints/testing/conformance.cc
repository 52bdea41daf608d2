#include "server/hints/testing/conformance.h"

#include <future>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"

namespace kerf {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SegmentStoreConformance);

namespace {

HintScope ScopeOf(std::string repository, std::string_view profile = "mincdc-8k",
                  DigestAlgorithm algorithm = DigestAlgorithm::kBlake3) {
  const auto parsed = ParseProfile(profile);
  KERF_CHECK(parsed.ok());
  return HintScope({std::move(repository), algorithm}, *parsed);
}

Digest RandomDigest(Random& random) {
  Digest digest;
  random.Fill(digest.bytes);
  return digest;
}

StoredSegment RandomSegment(Random& random, std::size_t size_bytes, std::size_t anchor_count) {
  StoredSegment segment;
  random.Fill(segment.id.bytes);
  segment.bytes.resize(size_bytes);
  random.Fill({reinterpret_cast<std::uint8_t*>(segment.bytes.data()), segment.bytes.size()});
  for (std::size_t count = 0; count < anchor_count; ++count) {
    segment.anchors.push_back(RandomDigest(random));
  }
  return segment;
}

void ExpectBytes(const FetchedBytes& fetched, const std::string& expected) {
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_TRUE(fetched->has_value());
  EXPECT_EQ(**fetched == expected, true) << (*fetched)->size() << " bytes";
}

void ExpectNothing(const FetchedBytes& fetched) {
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_FALSE(fetched->has_value());
}

}  // namespace

FoundId FindAndWait(SegmentStore& store, const HintScope& scope, const Digest& anchor) {
  std::promise<FoundId> answer;
  store.FindByAnchor(scope, anchor, [&answer](const FoundId& found) { answer.set_value(found); });
  return answer.get_future().get();
}

FetchedBytes FetchAndWait(SegmentStore& store, const HintScope& scope, const SegmentId& id) {
  std::promise<FetchedBytes> answer;
  store.Fetch(scope, id, [&answer](const FetchedBytes& fetched) { answer.set_value(fetched); });
  return answer.get_future().get();
}

FetchedBytes FetchAndWait(SegmentStore& store, const HintScope& scope, const Digest& anchor) {
  const FoundId found = FindAndWait(store, scope, anchor);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return std::nullopt;
  return FetchAndWait(store, scope, **found);
}

absl::Status PutAndWait(SegmentStore& store, const HintScope& scope,
                        std::vector<StoredSegment> segments) {
  std::promise<absl::Status> answer;
  store.Put(scope, std::move(segments),
            [&answer](const absl::Status& status) { answer.set_value(status); });
  return answer.get_future().get();
}

TEST_P(SegmentStoreConformance, AnEmptyStoreHasNothing) {
  Random random(TestSeed());
  const HintScope scope = ScopeOf("photos");
  ExpectNothing(FetchAndWait(*store_, scope, RandomDigest(random)));
  ExpectNothing(FetchAndWait(*store_, scope, RandomSegment(random, 0, 0).id));
  EXPECT_TRUE(PutAndWait(*store_, scope, {}).ok());
  EXPECT_FALSE(store_->backend_name().empty());
}

TEST_P(SegmentStoreConformance, WhatWasPutIsFoundByItsIdAndEachAnchor) {
  Random random(TestSeed());
  const HintScope scope = ScopeOf("photos");
  std::vector<StoredSegment> segments;
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, kMaxSegmentBytes}) {
    segments.push_back(RandomSegment(random, size, 1 + random.Below(64)));
  }
  segments.push_back(RandomSegment(random, 50, 0));
  // All that text might trip over.
  segments[1].bytes.replace(0, 4, std::string("\0\r\n\xff", 4));
  ASSERT_TRUE(PutAndWait(*store_, scope, segments).ok());
  for (const StoredSegment& segment : segments) {
    ExpectBytes(FetchAndWait(*store_, scope, segment.id), segment.bytes);
    for (const Digest& anchor : segment.anchors) {
      ExpectBytes(FetchAndWait(*store_, scope, anchor), segment.bytes);
    }
    Digest other = segment.anchors.empty() ? Digest() : segment.anchors[0];
    other.bytes[0] ^= 1;
    ExpectNothing(FetchAndWait(*store_, scope, other));
  }
}

TEST_P(SegmentStoreConformance, LaterWritesWin) {
  Random random(TestSeed());
  const HintScope scope = ScopeOf("photos");
  StoredSegment first = RandomSegment(random, 100, 3);
  StoredSegment second = RandomSegment(random, 200, 1);
  second.anchors.push_back(first.anchors[1]);
  ASSERT_TRUE(PutAndWait(*store_, scope, {first}).ok());
  ASSERT_TRUE(PutAndWait(*store_, scope, {second}).ok());
  ExpectBytes(FetchAndWait(*store_, scope, first.anchors[0]), first.bytes);
  ExpectBytes(FetchAndWait(*store_, scope, first.anchors[1]), second.bytes);
  // The same segment with something else in front of its run.
  first.bytes = RandomSegment(random, 120, 0).bytes;
  ASSERT_TRUE(PutAndWait(*store_, scope, {first}).ok());
  ExpectBytes(FetchAndWait(*store_, scope, first.id), first.bytes);
  for (const Digest& anchor : first.anchors) {
    ExpectBytes(FetchAndWait(*store_, scope, anchor), first.bytes);
  }
  ExpectBytes(FetchAndWait(*store_, scope, second.anchors[0]), second.bytes);
  // And in one call.
  StoredSegment third = RandomSegment(random, 10, 1);
  StoredSegment fourth = RandomSegment(random, 11, 0);
  fourth.anchors = third.anchors;
  ASSERT_TRUE(PutAndWait(*store_, scope, {third, fourth}).ok());
  ExpectBytes(FetchAndWait(*store_, scope, third.anchors[0]), fourth.bytes);
}

TEST_P(SegmentStoreConformance, ScopesDoNotSeeEachOther) {
  Random random(TestSeed());
  const std::vector<HintScope> scopes = {ScopeOf("photos"), ScopeOf("photos2"),
                                         ScopeOf("photos", "rabin-8k"),
                                         ScopeOf("photos", "mincdc-8k", DigestAlgorithm::kSha256)};
  const StoredSegment pattern = RandomSegment(random, 100, 2);
  for (std::size_t put = 0; put < scopes.size(); ++put) {
    for (std::size_t later = put; later < scopes.size(); ++later) {
      ExpectNothing(FetchAndWait(*store_, scopes[later], pattern.id));
      ExpectNothing(FetchAndWait(*store_, scopes[later], pattern.anchors[0]));
    }
    StoredSegment segment = pattern;
    segment.bytes = Cat("of scope ", put);
    ASSERT_TRUE(PutAndWait(*store_, scopes[put], {segment}).ok());
  }
  for (std::size_t put = 0; put < scopes.size(); ++put) {
    ExpectBytes(FetchAndWait(*store_, scopes[put], pattern.id), Cat("of scope ", put));
    ExpectBytes(FetchAndWait(*store_, scopes[put], pattern.anchors[1]), Cat("of scope ", put));
  }
}

TEST_P(SegmentStoreConformance, ManyThreads) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kRounds = 30;
  const std::uint64_t seed = TestSeed();
  const HintScope scope = ScopeOf("photos");
  Random common_random(seed);
  const Digest common = RandomDigest(common_random);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::size_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      Random random(seed + number + 1);
      for (std::size_t round = 0; round < kRounds; ++round) {
        StoredSegment segment = RandomSegment(random, 1 + random.Below(2000), 4);
        segment.bytes[0] = 'c';
        segment.anchors.push_back(common);
        EXPECT_TRUE(PutAndWait(*store_, scope, {segment}).ok());
        ExpectBytes(FetchAndWait(*store_, scope, segment.id), segment.bytes);
        ExpectBytes(FetchAndWait(*store_, scope, segment.anchors[2]), segment.bytes);
        // Somebody's, whole.
        const FetchedBytes fetched = FetchAndWait(*store_, scope, common);
        EXPECT_TRUE(fetched.ok() && fetched->has_value() && (**fetched)[0] == 'c');
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace kerf
