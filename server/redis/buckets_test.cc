// What a bucket and the head of its base bucket say together: the table of docs/adr/0022, row by
// row, without a Redis.
#include "server/redis/buckets.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/index/codec.h"
#include "server/index/rules.h"

namespace kerf {
namespace {

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

std::string EntryAt(std::uint64_t epoch) { return index_codec::EncodeEntry({epoch, 7, "at"}); }

BucketContent Following(std::uint64_t epoch, std::uint64_t removed_count = 0) {
  BucketContent content;
  EXPECT_TRUE(SetEpoch(content, index_codec::EncodeFollowing({epoch, removed_count})).ok());
  return content;
}
BucketContent OfBefore(std::uint64_t epoch, std::uint64_t removed_count = 0) {
  BucketContent content;
  EXPECT_TRUE(SetEpoch(content, index_codec::EncodeEpoch({epoch, removed_count})).ok());
  return content;
}
BucketContent Below(BucketContent content, std::uint64_t epoch, std::uint64_t lost_count = 0) {
  content.head = *ParseHead(index_codec::EncodeEpoch({epoch, lost_count}));
  return content;
}
BucketContent WithoutHead(BucketContent content, std::uint64_t epoch_without) {
  content.head = BucketHead();
  content.epoch_without = epoch_without;
  return content;
}

struct Said {
  std::uint64_t fence;
  std::uint64_t believed;
  std::uint64_t answered;
  std::uint64_t removed;
};
void ExpectSaid(const BucketContent& content, const Said& said) {
  EXPECT_EQ(FenceOf(content), said.fence);
  EXPECT_EQ(BelievedEpochOf(content), said.believed);
  EXPECT_EQ(EpochToAnswer(content), said.answered);
  EXPECT_EQ(RemovedSince(content), said.removed);
}

TEST(BucketsTest, ABucketAndItsHeadSayTheLargerOfTheirEpochs) {
  // At one with it, behind it, and ahead of one that has gone back.
  ExpectSaid(Below(Following(5, 3), 5), {5, 5, 5, 3});
  ExpectSaid(Below(Following(4, 3), 5), {5, 5, 5, 0});
  ExpectSaid(Below(Following(6, 3), 5), {6, 6, 5, 3});
}

TEST(BucketsTest, BelowALossNothingIsAnswered) {
  ExpectSaid(Below(Following(5), 5, 1), {5, 5, 0, 0});
  // The lost one itself.
  ExpectSaid(Below(BucketContent(), 5), {5, 0, 0, 0});
}

TEST(BucketsTest, WhereTheHeadIsLostWhatIsKnownOfTheRepositoryCounts) {
  // One that was told, and one that was not.
  ExpectSaid(WithoutHead(Following(5, 2), 0), {5, 5, 0, 2});
  ExpectSaid(WithoutHead(Following(5, 2), 7), {7, 5, 7, 2});
}

TEST(BucketsTest, WithoutAHeadABucketOfBeforeIsWhatItWas) {
  ExpectSaid(WithoutHead(OfBefore(5, 2), 9), {5, 5, 5, 2});
  ExpectSaid(OfBefore(5), {5, 5, 5, 0});
  BucketContent missing;
  missing.epoch_without = 4;
  ExpectSaid(missing, {4, 0, 4, 0});
}

// It has come back alone: nothing of it is believed that its own epoch does not say.
TEST(BucketsTest, ABucketOfBeforeBelowAHeadIsNeverRaised) {
  const BucketContent content = Below(OfBefore(3, 2), 5);
  ExpectSaid(content, {5, 3, 3, 2});
  EXPECT_EQ(EpochChange(content, {}).second, index_codec::EncodeEpoch({3, 2}));
  EXPECT_FALSE(*IsInDoubt(content, 5));
}

TEST(BucketsTest, ABucketOfBeforeFollowsAgainWithWhatItMayHaveMissed) {
  EXPECT_TRUE(Below(OfBefore(3), 5).is_apart());
  EXPECT_FALSE(Below(Following(3), 5).is_apart());
  EXPECT_FALSE(OfBefore(3).is_apart());
  EXPECT_FALSE(Below(BucketContent(), 5).is_apart());
  const std::vector<FieldChange> one_goes = {{"a", "x", ""}};
  EXPECT_EQ(EpochToRejoin(Below(OfBefore(3, 2), 5), one_goes),
            index_codec::EncodeFollowing({5, 4}));
  // It knows all of that epoch itself.
  EXPECT_EQ(EpochToRejoin(Below(OfBefore(5, 2), 5), {}), index_codec::EncodeFollowing({5, 2}));
  EXPECT_EQ(EpochToRejoin(Below(OfBefore(6), 5), {}), index_codec::EncodeFollowing({6, 0}));
}

TEST(BucketsTest, WhatIsWrittenHasTheHeadsEpochAndTheRemovalsOfThat) {
  const std::vector<FieldChange> one_goes = {{"a", "x", ""}, {"b", "y", "y"}};
  const auto wanted = [&](const BucketContent& content) {
    return EpochChange(content, one_goes).second;
  };
  EXPECT_EQ(wanted(Below(Following(5, 3), 5)), index_codec::EncodeFollowing({5, 4}));
  EXPECT_EQ(wanted(Below(Following(4, 3), 5)), index_codec::EncodeFollowing({5, 1}));
  EXPECT_EQ(wanted(Below(Following(6, 3), 5)), index_codec::EncodeFollowing({6, 4}));
  // Whose head is lost stays at what it is, for nobody has seen more, and follows none any more.
  EXPECT_EQ(wanted(WithoutHead(Following(4, 3), 9)), index_codec::EncodeEpoch({4, 4}));
  const std::vector<FieldChange> none = {{"b", "y", "y"}, {"c", "", ""}};
  EXPECT_EQ(EpochChange(WithoutHead(Following(4, 3), 9), none).second,
            index_codec::EncodeFollowing({4, 3}));
  EXPECT_EQ(wanted(OfBefore(4, 3)), index_codec::EncodeEpoch({4, 4}));
  // The head itself stays.
  const auto head = HeadChange(Below(Following(4), 5, 2));
  EXPECT_EQ(head.first, head.second);
  EXPECT_EQ(HeadChange(OfBefore(4)), std::make_pair(std::string(), std::string()));
}

TEST(BucketsTest, WhatIsMadeSaysWhetherItWasLost) {
  BucketContent first;
  first.epoch_without = 4;
  EXPECT_EQ(EpochChange(first, {}),
            std::make_pair(std::string(), index_codec::EncodeEpoch({4, 0})));
  first.makes_head = true;
  EXPECT_EQ(EpochChange(first, {}),
            std::make_pair(std::string(), index_codec::EncodeFollowing({4, 0})));
  EXPECT_EQ(HeadChange(first), std::make_pair(std::string(), EncodeHead(4)));
  EXPECT_EQ(WithLoss(*ParseHead(EncodeHead(4))), index_codec::EncodeEpoch({4, 1}));
  EXPECT_EQ(WithLoss(BucketHead()), "");
  const BucketContent lost = Below(BucketContent(), 5, 1);
  EXPECT_EQ(EpochChange(lost, {}).second, index_codec::EncodeFollowing({5, 0}));
  EXPECT_EQ(HeadChange(lost),
            std::make_pair(index_codec::EncodeEpoch({5, 1}), index_codec::EncodeEpoch({5, 2})));
}

TEST(BucketsTest, ACommitIsHeldToBucketAndHead) {
  const std::vector<IndexEntry> entries = {{Digest(), 7, "new"}};
  const auto plan = [&](BucketContent content, std::uint64_t session, std::string held) {
    content.values = {std::move(held)};
    return PlanBucketCommit(kRepository, content, session, entries, false);
  };
  // Behind the one, or behind the other.
  EXPECT_TRUE(absl::IsFailedPrecondition(plan(Below(Following(3), 5), 4, "").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(plan(Below(Following(5), 3), 4, "").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(plan(WithoutHead(Following(3), 5), 4, "").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(plan(Below(OfBefore(3), 5), 4, "").status()));
  EXPECT_TRUE(plan(Below(Following(3), 5), 5, "")->front().is_change());
  // What the head vouches for stays; below a head, not what a bucket of before has.
  EXPECT_FALSE(plan(Below(Following(3), 5), 5, EntryAt(2))->front().is_change());
  EXPECT_TRUE(plan(Below(Following(3), 5), 6, EntryAt(2))->front().is_change());
  EXPECT_TRUE(plan(Below(OfBefore(3), 5), 5, EntryAt(2))->front().is_change());
}

TEST(BucketsTest, ALookupAsksForTheHeadWhereTheBucketSaysTooLittle) {
  const auto in_doubt = [](BucketContent content, std::uint64_t session, std::string held) {
    content.values = {std::move(held)};
    return *IsInDoubt(content, session);
  };
  EXPECT_TRUE(in_doubt(Following(3), 5, EntryAt(2)));
  EXPECT_FALSE(in_doubt(Following(3), 5, EntryAt(5)));
  EXPECT_FALSE(in_doubt(Following(3), 5, ""));
  EXPECT_FALSE(in_doubt(Following(5), 5, EntryAt(2)));
  EXPECT_FALSE(in_doubt(OfBefore(3), 5, EntryAt(2)));
  // A session that is too far ahead of the one may not be so of the other, or the other way round.
  constexpr std::uint64_t kFar = index_rules::kMaxEpochStep + 2;
  EXPECT_TRUE(in_doubt(Following(1), kFar, ""));
  EXPECT_TRUE(in_doubt(Following(0), kFar, EntryAt(kFar)));
  BucketContent content = Following(1);
  content.values = {""};
  EXPECT_TRUE(absl::IsInvalidArgument(LookupIn(content, 0, kFar).status()));
  EXPECT_TRUE(LookupIn(Below(content, 2), 0, kFar).ok());
}

// By its own epoch: of the head no lookup has seen that it goes with these entries.
TEST(BucketsTest, ALookupBelievesTheBucketAlone) {
  BucketContent content = Below(Following(3), 5);
  content.values = {EntryAt(2)};
  EXPECT_EQ(LookupIn(content, 0, 3)->verdict, Verdict::kDuplicate);
  EXPECT_EQ(LookupIn(content, 0, 4)->verdict, Verdict::kUnverified);
  EXPECT_EQ(LookupIn(content, 0, 4)->repository_epoch, 5u);
}

TEST(BucketsTest, WhatIsNoEpochIsNotUnderstood) {
  BucketContent content;
  for (const std::string bytes : {"", "\x03", "\x05\x01", "\x04\x01"}) {
    EXPECT_TRUE(absl::IsDataLoss(SetEpoch(content, bytes))) << bytes;
  }
  EXPECT_FALSE(ParseHead("")->is_there());
  // A head's is of the form that all know.
  EXPECT_TRUE(absl::IsDataLoss(ParseHead(index_codec::EncodeFollowing({1, 0})).status()));
}

}  // namespace
}  // namespace kerf
