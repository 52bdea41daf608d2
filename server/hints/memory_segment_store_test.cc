#include "server/hints/memory_segment_store.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/random.h"
#include "base/test_seed.h"
#include "base/units.h"
#include "server/hints/testing/conformance.h"

namespace kerf {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, SegmentStoreConformance, ::testing::Values(SegmentStoreLeaf{[] {
                           return CreateMemorySegmentStore(4 * kMiB);
                         }}));

HintScope AnyScope() {
  const auto profile = ParseProfile("mincdc-8k");
  KERF_CHECK(profile.ok());
  return HintScope({"photos", DigestAlgorithm::kBlake3}, *profile);
}

StoredSegment SegmentOf(Random& random, std::size_t size_bytes, std::size_t anchor_count) {
  StoredSegment segment;
  random.Fill(segment.id.bytes);
  segment.bytes.assign(size_bytes, 'x');
  segment.anchors.resize(anchor_count);
  for (Digest& anchor : segment.anchors) random.Fill(anchor.bytes);
  return segment;
}

TEST(MemorySegmentStore, WhatIsNotUsedGoesFirst) {
  Random random(TestSeed());
  const HintScope scope = AnyScope();
  const auto store = CreateMemorySegmentStore(100 * kKiB);
  const StoredSegment used = SegmentOf(random, 10'000, 1);
  const StoredSegment unused = SegmentOf(random, 10'000, 1);
  ASSERT_TRUE(PutAndWait(*store, scope, {used, unused}).ok());
  for (int count = 0; count < 20; ++count) {
    ASSERT_TRUE(PutAndWait(*store, scope, {SegmentOf(random, 10'000, 1)}).ok());
    EXPECT_TRUE(FetchAndWait(*store, scope, used.anchors[0])->has_value());
  }
  EXPECT_FALSE(FetchAndWait(*store, scope, unused.id)->has_value());
  EXPECT_FALSE(FetchAndWait(*store, scope, unused.anchors[0])->has_value());
}

TEST(MemorySegmentStore, AnchorsAndLongSegmentsCountToo) {
  Random random(TestSeed());
  const HintScope scope = AnyScope();
  const auto store = CreateMemorySegmentStore(100 * kKiB);
  const StoredSegment small = SegmentOf(random, 10, 1);
  ASSERT_TRUE(PutAndWait(*store, scope, {small}).ok());
  const StoredSegment with_anchors = SegmentOf(random, 10, 2'000);
  const StoredSegment long_one = SegmentOf(random, 200 * kKiB, 1);
  for (const StoredSegment& hostile : {with_anchors, long_one}) {
    ASSERT_TRUE(PutAndWait(*store, scope, {hostile}).ok());
    EXPECT_FALSE(FetchAndWait(*store, scope, hostile.id)->has_value());
    EXPECT_FALSE(FetchAndWait(*store, scope, hostile.anchors[0])->has_value());
    EXPECT_FALSE(FetchAndWait(*store, scope, small.id)->has_value());
    // And it goes on.
    ASSERT_TRUE(PutAndWait(*store, scope, {small}).ok());
    EXPECT_TRUE(FetchAndWait(*store, scope, small.id)->has_value());
  }
}

}  // namespace
}  // namespace kerf
