// What is lost, set back, or comes back of the third layout of a repository: each row of the table
// of docs/adr/0022, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/index/codec.h"
#include "server/redis/testing/heads_fixture.h"

namespace kerf {
namespace {

using index_codec::EncodeEpoch;
using index_codec::EncodeFollowing;

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

class RedisHeadLossesTest : public HeadsFixture {};

TEST_F(RedisHeadLossesTest, AHeadThatIsLostHoldsTheEpochBack) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  EXPECT_EQ(VerdictOf(*index, 3, kOne), Verdict::kDuplicate);
  Ask({"DEL", Head()});
  // What it has said of itself it says.
  EXPECT_EQ(VerdictOf(*index, 3, kOne), Verdict::kDuplicate);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 2, {kBesideIt})));
  EXPECT_EQ(Stats(*index).epoch, 0u);
  EXPECT_EQ(Stats(*index).entry_count, 1u);
  EXPECT_EQ(Forget(*index, {kBesideIt}).epoch, 0u);
  EXPECT_EQ(Forget(*index, {}).epoch, 0u);
  EXPECT_EQ(ForgetOlder(*index, 0).epoch, 0u);
  ExpectAdvance(*index, 5, 3, 0);
  // Once it was written it goes by what it says itself, as one that never had a head.
  ASSERT_TRUE(Commit(*index, 3, {kBesideIt}).ok());
  EXPECT_EQ(EpochAt(Bucket()), EncodeEpoch({3, 0}));
  EXPECT_EQ(CountOf(Head()), 0u);
  ExpectAdvance(*index, 5, 3, 3);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({3, 0}));
  // Whoever was told less comes too late now, and all is counted.
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 3, {kElsewhere})));
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 3, {kBesideIt})));
  EXPECT_EQ(Stats(*index).epoch, 5u);
  EXPECT_EQ(Stats(*index).entry_count, 2u);
  EXPECT_EQ(ForgetOlder(*index, 0).epoch, 5u);
}

// The buckets know what the head has counted.
TEST_F(RedisHeadLossesTest, WhatWasRemovedIsKnownWhereALostHeadIsToldItsEpochAgain) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne, kBesideIt}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  Ask({"DEL", Head()});
  ExpectAdvance(*index, 3, 0, 0);
  EXPECT_EQ(Forget(*index, {}).epoch, 3u);
  EXPECT_EQ(Forget(*index, {}).removed_count, 1u);
  ExpectAdvance(*index, 4, 3, 3);
  EXPECT_EQ(Forget(*index, {}).removed_count, 0u);
}

// It was made since the epoch was told: nothing says that it must be there.
TEST_F(RedisHeadLossesTest, AHeadThatWasNotToldAndIsLostHoldsNothingBack) {
  const auto index = Open();
  ExpectAdvance(*index, 3, 0, 0);
  ASSERT_TRUE(Commit(*index, 3, {kOne}).ok());
  Ask({"DEL", Head()});
  EXPECT_EQ(Stats(*index).epoch, 3u);
  EXPECT_EQ(Forget(*index, {kBesideIt}).epoch, 3u);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 2, {kBesideIt})));
  ExpectAdvance(*index, 4, 3, 3);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({4, 0}));
  EXPECT_EQ(VerdictOf(*index, 4, kOne), Verdict::kDuplicate);
}

TEST_F(RedisHeadLossesTest, ABucketThatIsLostBelowItsHeadHoldsTheEpochBack) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne, kElsewhere}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  Ask({"DEL", Bucket()});
  EXPECT_EQ(VerdictOf(*index, 3, kOne), Verdict::kNew);
  EXPECT_EQ(Stats(*index).epoch, 0u);
  EXPECT_EQ(Forget(*index, {kOne}).epoch, 0u);
  EXPECT_EQ(Forget(*index, {kElsewhere}).epoch, 3u);
  ExpectAdvance(*index, 4, 3, 0);
  // Who makes it again says that it was lost: it may come back.
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 2, {kOne})));
  ASSERT_TRUE(Commit(*index, 3, {kOne}).ok());
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({3, 1}));
  EXPECT_EQ(Stats(*index).epoch, 0u);
  EXPECT_EQ(Forget(*index, {kOne}).epoch, 0u);
  ExpectAdvance(*index, 4, 3, 0);
  ExpectAdvance(*index, 4, 0, 0);
  EXPECT_EQ(Stats(*index).epoch, 4u);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({4, 0}));
}

// Whoever tells an epoch makes it, so that nobody of before can.
TEST_F(RedisHeadLossesTest, ALostBucketIsMadeByWhoTellsAnEpoch) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  Ask({"DEL", Bucket()});
  ExpectAdvance(*index, 4, 0, 0);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({4, 0}));
  EXPECT_EQ(Stats(*index).epoch, 4u);
}

// It was there when AdvanceEpoch looked, and is not when it raises the head.
TEST_F(RedisHeadLossesTest, ABucketThatIsLostBehindTheLookHoldsTheEpochBack) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  const auto raises = [this](const RedisCommand& command) {
    return command.key == Bucket() &&
           std::count(command.arguments.begin(), command.arguments.end(), EncodeEpoch({4, 0})) > 0;
  };
  const auto other = OpenOvertaken(RedisLayout::kHeads, raises, [this] { Ask({"DEL", Bucket()}); });
  ExpectAdvance(*other, 4, 3, 0);
  EXPECT_EQ(Stats(*index).epoch, 0u);
  ExpectAdvance(*index, 4, 0, 0);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({4, 0}));
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({4, 0}));
  EXPECT_EQ(Stats(*index).epoch, 4u);
}

// Where a path meets it that is drawn anew for each epoch: three of four of them do, at least.
TEST_F(RedisHeadLossesTest, ABucketThatIsLostBesideOthersIsMadeByWhoTellsAnEpoch) {
  const auto index = Open();
  FillBase(*index, 1, 300);
  const RedisReply keys = Ask({"KEYS", Bucket() + "*"});
  for (std::size_t at = 1; at < keys.elements.size(); ++at) Ask({"DEL", keys.elements[at].text});
  for (std::uint64_t epoch = 2; epoch < 14; ++epoch) {
    const auto told = WaitFor(index->AdvanceEpoch(kRepository, epoch, 0));
    ASSERT_TRUE(told.ok()) << told.status();
  }
  EXPECT_GT(CountOf(Bucket()), 1u);
}

TEST_F(RedisHeadLossesTest, ABucketThatIsLostBesideOthersIsToldByWhoeverMeetsIt) {
  const auto index = Open();
  const std::vector<IndexEntry> entries = FillBase(*index, 1, 300);
  ExpectAdvance(*index, 3, 0, 0);
  const auto in_lost = [&](const IndexEntry& entry) {
    return PathOf(entry.digest, kBaseBits, 2) == "01";
  };
  std::vector<IndexEntry> lost;
  std::vector<IndexEntry> kept;
  for (const IndexEntry& entry : entries) (in_lost(entry) ? lost : kept).push_back(entry);
  for (const RedisReply& key : Ask({"KEYS", Bucket(kBase, "01") + "*"}).elements) {
    Ask({"DEL", key.text});
  }
  ASSERT_EQ(VerdictOf(*index, 1, lost[0]), Verdict::kNew);
  EXPECT_EQ(Forget(*index, {lost[0]}).epoch, 0u);
  EXPECT_EQ(Forget(*index, {kOne}).epoch, in_lost(kOne) ? 0u : 3u);
  // ForgetOlder sees all of them; it makes what is missing, counts anew, and says so.
  const ForgetResult older = ForgetOlder(*index, 1);
  EXPECT_EQ(older.epoch, 0u);
  EXPECT_EQ(older.forgotten_count, 0u);
  EXPECT_EQ(Stats(*index).epoch, 0u);
  EXPECT_EQ(Stats(*index).entry_count, kept.size());
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({3, 1}));
  // That is known until another epoch is told, and no longer.
  EXPECT_EQ(ForgetOlder(*index, 1).epoch, 0u);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({3, 1}));
  ExpectAdvance(*index, 4, 3, 0);
  ExpectAdvance(*index, 4, 0, 0);
  EXPECT_EQ(ForgetOlder(*index, 1).epoch, 4u);
  ASSERT_TRUE(Commit(*index, 4, lost).ok());
  EXPECT_EQ(Stats(*index).entry_count, entries.size());
  EXPECT_EQ(Stats(*index).epoch, 4u);
}

// Somebody has written there what is no count: whoever asks counts, nobody is refused, and what
// might have come back alone is told once all is counted.
TEST_F(RedisHeadLossesTest, ACountThatIsNoneIsCountedByWhoAsks) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne, kBesideIt}).ok());
  ExpectAdvance(*index, 2, 0, 0);
  Ask({"HSET", Head(), "n", "many", "x", "some"});
  EXPECT_EQ(Stats(*index).entry_count, 2u);
  EXPECT_EQ(Stats(*index).epoch, 2u);
  EXPECT_GT(Forget(*index, {}).removed_count, 0u);
  EXPECT_EQ(VerdictOf(*index, 2, kOne), Verdict::kDuplicate);
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  EXPECT_EQ(Stats(*index).entry_count, 1u);
  ExpectAdvance(*index, 3, 2, 2);
  EXPECT_EQ(Forget(*index, {}).removed_count, 0u);
  ASSERT_TRUE(Commit(*index, 3, {kOne, kElsewhere}).ok());
  EXPECT_EQ(Stats(*index).entry_count, 3u);
  EXPECT_EQ(ForgetOlder(*index, 0).epoch, 0u);
  EXPECT_EQ(Field(Head(), "n"), "2");
  ExpectAdvance(*index, 4, 3, 0);
  ExpectAdvance(*index, 4, 0, 0);
  EXPECT_EQ(ForgetOlder(*index, 0).epoch, 4u);
}

// How long paths are is lost, as where a failover breaks off the move of a slot: nobody finds what
// lies on longer ones, and a bucket is made above it. Whoever remembers it still reads it; what is
// forgotten meanwhile goes from the other one alone.
TEST_F(RedisHeadLossesTest, WhatIsHiddenIsNotRaisedForWhoRemembersItsPath) {
  const auto reads = Open();
  const auto writes = Open();
  const std::vector<IndexEntry> entries = FillBase(*reads, 1, 300);
  for (const IndexEntry& entry : entries) {
    ASSERT_EQ(VerdictOf(*reads, 1, entry), Verdict::kDuplicate);
    ASSERT_EQ(VerdictOf(*writes, 1, entry), Verdict::kDuplicate);
  }
  Ask({"DEL", LongestPathKey(tag_, kBase)});
  const auto other = Open();
  ExpectAdvance(*other, 3, 0, 0);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({3, 0}));
  for (const IndexEntry& entry : entries) {
    ASSERT_EQ(VerdictOf(*other, 3, entry), Verdict::kNew);
    ASSERT_NE(VerdictOf(*reads, 3, entry), Verdict::kDuplicate);
  }
  // Nor does it take what nobody else would find.
  ASSERT_TRUE(Commit(*writes, 3, {entries[0]}).ok());
  EXPECT_EQ(VerdictOf(*other, 3, entries[0]), Verdict::kDuplicate);
}

// An old state of one bucket alone, which only somebody's hand can bring: where it has other
// entries than the one that it has overwritten, ForgetOlder finds it.
TEST_F(RedisHeadLossesTest, ABucketThatComesBackAloneIsFoundByItsEntries) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne, kBesideIt}).ok());
  const std::string old = Ask({"DUMP", Bucket()}).text;
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  ExpectAdvance(*index, 2, 0, 0);
  EXPECT_EQ(ForgetOlder(*index, 0).epoch, 2u);
  Ask({"RESTORE", Bucket(), "0", old, "REPLACE"});
  EXPECT_EQ(ForgetOlder(*index, 0).epoch, 0u);
  EXPECT_EQ(Stats(*index).epoch, 0u);
  EXPECT_EQ(Stats(*index).entry_count, 2u);
}

// A move of the slot that a failover has broken off has left a copy with the other node; the bucket
// is split before `redis-cli --cluster fix` brings that back, and no other copy is in its way.
TEST_F(RedisHeadLossesTest, ACopyAboveWhatItWasSplitIntoIsNotBelieved) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  const std::string old = Ask({"DUMP", Bucket()}).text;
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  FillBase(*index, 1, 300);
  ExpectAdvance(*index, 2, 0, 0);
  const ForgetResult none = Forget(*index, {kOne});
  EXPECT_EQ(none.epoch, 2u);
  EXPECT_EQ(none.removed_count, 0u);
  Ask({"RESTORE", Bucket(), "0", old});
  const auto other = Open();
  EXPECT_EQ(VerdictOf(*other, 2, kOne), Verdict::kNew);
  // Nobody can tell which of them is older: what both had is lost, and that is told.
  EXPECT_EQ(CountOf(Bucket()), 1u);
  EXPECT_EQ(Forget(*other, {kOne}).epoch, 0u);
  ExpectAdvance(*other, 3, 2, 0);
  ASSERT_TRUE(Commit(*other, 2, {kOne}).ok());
  EXPECT_EQ(VerdictOf(*index, 2, kOne), Verdict::kDuplicate);
}

// As of a repository that was another's, brought back by hand: nothing raises it.
TEST_F(RedisHeadLossesTest, ABucketOfBeforeBelowAHeadIsNotRaised) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  Ask({"HSET", Bucket(), "e", EncodeEpoch({0, 0})});
  ExpectAdvance(*index, 3, 0, 0);
  const auto other = Open();
  EXPECT_EQ(VerdictOf(*other, 3, kOne), Verdict::kUnverified);
  EXPECT_EQ(VerdictOf(*other, 1, kOne), Verdict::kDuplicate);
  EXPECT_EQ(Forget(*other, {kBesideIt}).epoch, 0u);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*other, 2, {kBesideIt})));
  ASSERT_TRUE(Commit(*other, 3, {kOne}).ok());
  EXPECT_EQ(Lookup(*other, 3, kOne).verdict, Verdict::kDuplicate);
  EXPECT_EQ(EpochAt(Bucket()), EncodeEpoch({0, 0}));
  // One whose epoch is reset is believed by nobody before it was made whole.
  ASSERT_TRUE(WaitFor(other->ResetEpoch(kRepository, 2, std::nullopt, 1'000)).ok());
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({2, 0}));
  EXPECT_EQ(Forget(*other, {kBesideIt}).epoch, 2u);
}

// Nor does it keep an epoch from being told where the version was lost, and a walk tells them.
TEST_F(RedisHeadLossesTest, ABucketOfBeforeBelowAHeadKeepsNoWalkFromItsEnd) {
  ASSERT_TRUE(Commit(*Open(), 1, {kOne}).ok());
  Ask({"HSET", Bucket(), "e", EncodeEpoch({0, 0})});
  std::uint64_t epoch = 3;
  for (const std::string version : {"2", "1"}) {
    Ask({"HSET", Meta(), "version", version});
    const auto index = Open(RedisLayout::kLazy);
    ExpectAdvance(*index, epoch, 1, 0);
    ExpectAdvance(*index, epoch, 0, 0);
    EXPECT_EQ(EpochAt(Head()), EncodeEpoch({epoch, 0}));
    EXPECT_EQ(EpochAt(Bucket()), EncodeEpoch({0, 0}));
    EXPECT_EQ(VerdictOf(*index, epoch, kOne), Verdict::kUnverified);
    ++epoch;
  }
}

// A node that is set back, with all of its keys, is at the epoch that its heads have.
TEST_F(RedisHeadLossesTest, HeadsThatAreSetBackHoldTheEpochBack) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne, kElsewhere}).ok());
  ExpectAdvance(*index, 2, 0, 0);
  EXPECT_EQ(VerdictOf(*index, 2, kOne), Verdict::kDuplicate);
  const std::string old_head = Ask({"DUMP", Head()}).text;
  const std::string old_bucket = Ask({"DUMP", Bucket()}).text;
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  ExpectAdvance(*index, 3, 2, 2);
  Ask({"RESTORE", Head(), "0", old_head, "REPLACE"});
  Ask({"RESTORE", Bucket(), "0", old_bucket, "REPLACE"});
  EXPECT_EQ(VerdictOf(*index, 3, kOne), Verdict::kUnverified);
  EXPECT_EQ(VerdictOf(*index, 3, kElsewhere), Verdict::kDuplicate);
  EXPECT_EQ(Stats(*index).epoch, 2u);
  EXPECT_EQ(Forget(*index, {kOne}).epoch, 2u);
  ExpectAdvance(*index, 4, 3, 2);
}

TEST_F(RedisHeadLossesTest, ARepositoryThatIsLostIsKnownByItsHeads) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  Ask({"DEL", Meta()});
  EXPECT_EQ(Stats(*index).epoch, 0u);
  ExpectAdvance(*index, 4, 3, 0);
  // Whoever knows it says what it was; whoever makes it anew may say something else: the heads
  // decide.
  EXPECT_EQ(Field(Meta(), "version"), "3");
  for (const RedisLayout layout : {RedisLayout::kLazy, RedisLayout::kHeads}) {
    Ask({"DEL", Meta()});
    const auto later = Open(layout);
    EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*later, 2, {kOne})));
    ASSERT_TRUE(Commit(*later, 3, {kElsewhere}).ok());
    EXPECT_EQ(Field(Meta(), "version"), layout == RedisLayout::kLazy ? "2" : "3");
    EXPECT_EQ(VerdictOf(*later, 3, kOne), Verdict::kDuplicate);
    ExpectAdvance(*later, 4, 1, 0);
  }
  const auto later = Open();
  ExpectAdvance(*later, 5, 0, 0);
  EXPECT_EQ(Stats(*later).epoch, 5u);
  EXPECT_EQ(Stats(*later).entry_count, 2u);
  EXPECT_EQ(VerdictOf(*later, 5, kOne), Verdict::kDuplicate);
  EXPECT_EQ(VerdictOf(*later, 5, kElsewhere), Verdict::kDuplicate);
}

// A head that is away for some time, as one may be that was moved to another node by a move which a
// failover has broken off, and that comes back to its bucket: what was written meanwhile it has not
// seen, and cannot vouch for.
class HeadThatWasAwayTest : public HeadsFixture {
 protected:
  // Two entries of epoch 1, told epoch 3; their head goes.
  void LoseHead() {
    ASSERT_TRUE(Commit(*index_, 1, {kOne, kBesideIt}).ok());
    ExpectAdvance(*index_, 3, 0, 0);
    head_ = Ask({"DUMP", Head()}).text;
    Ask({"DEL", Head()});
  }
  void BringItBack() {
    Ask({"RESTORE", Head(), "0", head_, "REPLACE"});
    EXPECT_EQ(EpochAt(Head()), EncodeEpoch({3, 0}));
  }

  const std::unique_ptr<RedisIndex> index_ = Open();
  std::string head_;
};

TEST_F(HeadThatWasAwayTest, WhatCameLateIsNotBelievedByIt) {
  LoseHead();
  // Nobody knows that 3 was told to this one.
  const IndexEntry late = Entry(0xC2, 1, "pack-of-before");
  ASSERT_TRUE(Commit(*index_, 2, {late}).ok());
  BringItBack();
  for (const std::uint64_t session : {3, 4}) {
    EXPECT_EQ(VerdictOf(*index_, session, late), Verdict::kUnverified);
  }
  EXPECT_EQ(VerdictOf(*index_, 2, late), Verdict::kDuplicate);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index_, 2, {kElsewhere, late})));
  EXPECT_EQ(Forget(*index_, {Entry(0xC3, 1, "none")}).epoch, 0u);
  // What was there is committed anew.
  EXPECT_EQ(VerdictOf(*index_, 3, kOne), Verdict::kUnverified);
  ASSERT_TRUE(Commit(*index_, 3, {kOne}).ok());
  EXPECT_EQ(VerdictOf(*index_, 3, kOne), Verdict::kDuplicate);
}

// Who has read that there is none, and writes when it is back: ForgetOlder may have the bucket
// follow it in between, and would not have seen what comes then.
TEST_F(HeadThatWasAwayTest, WhoHasReadThatThereIsNoneIsRefusedOnceItIsBack) {
  LoseHead();
  ASSERT_TRUE(Commit(*index_, 2, {Entry(0xC2, 1, "first")}).ok());
  ASSERT_EQ(EpochAt(Bucket()), EncodeEpoch({0, 0}));
  const IndexEntry late = Entry(0xC3, 1, "late");
  const std::string field(index_codec::DigestKey(kRepository, late.digest));
  const auto writes_it = [&](const RedisCommand& command) {
    return command.arguments[0] == "EVALSHA" &&
           std::count(command.arguments.begin(), command.arguments.end(), field) > 0;
  };
  const auto other = OpenOvertaken(RedisLayout::kHeads, writes_it, [this] { BringItBack(); });
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*other, 2, {late})));
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({3, 0}));
  EXPECT_EQ(VerdictOf(*index_, 2, late), Verdict::kNew);
}

TEST_F(HeadThatWasAwayTest, WhatWasRemovedMeanwhileIsTold) {
  LoseHead();
  ExpectForgotten(*index_, Forget(*index_, {kOne}), 1);
  BringItBack();
  // It was there when 3 was told: whoever hears of 3, no entry and no removal would believe that it
  // was not.
  const ForgetResult none = Forget(*index_, {kOne});
  EXPECT_EQ(none.epoch, 0u);
  EXPECT_EQ(none.removed_count, 1u);
}

// What has changed nothing leaves it as it was.
TEST_F(HeadThatWasAwayTest, WhatWasOnlyReadFollowsItAgain) {
  LoseHead();
  EXPECT_EQ(VerdictOf(*index_, 1, kOne), Verdict::kDuplicate);
  ASSERT_TRUE(Commit(*index_, 1, {kOne}).ok());
  EXPECT_EQ(Forget(*index_, {Entry(0xC3, 1, "none")}).forgotten_count, 0u);
  BringItBack();
  EXPECT_EQ(VerdictOf(*index_, 3, kOne), Verdict::kDuplicate);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({3, 0}));
}

// As `kerf index rebuild` does. What is older than the head's epoch goes, whatever is asked for:
// only the head could vouch for it.
TEST_F(HeadThatWasAwayTest, ForgetOlderTakesWhatItCannotVouchForAndTheBucketFollowsAgain) {
  LoseHead();
  ExpectForgotten(*index_, Forget(*index_, {kOne}), 1);
  const IndexEntry of_now = Entry(0xC2, 1, "pack-d");
  ASSERT_TRUE(Commit(*index_, 3, {of_now, Entry(0xC3, 1, "pack-e")}).ok());
  BringItBack();
  const ForgetResult older = ForgetOlder(*index_, 1);
  EXPECT_EQ(older.epoch, 0u);
  EXPECT_EQ(VerdictOf(*index_, 1, kBesideIt), Verdict::kNew);
  EXPECT_EQ(VerdictOf(*index_, 3, of_now), Verdict::kDuplicate);
  // The two that are gone, and what nobody knows of the time that it has missed.
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({3, 3}));
  // Nor does the head know how many there are; so it says that something is lost.
  EXPECT_EQ(Stats(*index_).entry_count, 2u);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({3, 1}));
  ExpectAdvance(*index_, 4, 3, 0);
  ExpectAdvance(*index_, 4, 0, 0);
  EXPECT_EQ(VerdictOf(*index_, 4, of_now), Verdict::kDuplicate);
  const ForgetResult none = Forget(*index_, {kOne});
  EXPECT_EQ(none.epoch, 4u);
  EXPECT_EQ(none.removed_count, 0u);
  EXPECT_EQ(ForgetOlder(*index_, 3).epoch, 4u);
}

// A step that sees a part of a bucket alone leaves it apart.
TEST_F(HeadThatWasAwayTest, ForgetOlderLeavesWhatItDoesNotSee) {
  LoseHead();
  ExpectForgotten(*index_, Forget(*index_, {kOne}), 1);
  BringItBack();
  const auto step = WaitFor(index_->ForgetOlder(kRepository, 3, kBesideIt.digest, 1'000));
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(EpochAt(Bucket()), EncodeEpoch({0, 1}));
  EXPECT_EQ(VerdictOf(*index_, 3, kBesideIt), Verdict::kUnverified);
}

// However many have come while it read.
TEST_F(HeadThatWasAwayTest, ForgetOlderCountsNobodyElseAsWhatItDoesNotSee) {
  LoseHead();
  ASSERT_TRUE(Commit(*index_, 2, {Entry(0xC2, 1, "first")}).ok());
  BringItBack();
  const auto is_reading = [this](const RedisCommand& command) {
    return command.arguments[0] == "HGETALL" && command.key == Bucket();
  };
  const auto other = OpenOvertaken(RedisLayout::kHeads, is_reading, [this] {
    EXPECT_TRUE(Commit(*index_, 3, {Entry(0xC3, 1, "second")}).ok());
  });
  const auto step = WaitFor(other->ForgetOlder(kRepository, 3, kOne.digest, 1'000));
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(VerdictOf(*index_, 3, kOne), Verdict::kUnverified);
  EXPECT_EQ(EpochAt(Bucket()), EncodeEpoch({0, 2}));
}

TEST_F(HeadThatWasAwayTest, AResetKeepsWhatWasRemovedMeanwhile) {
  LoseHead();
  ExpectForgotten(*index_, Forget(*index_, {kOne}), 1);
  BringItBack();
  ASSERT_TRUE(WaitFor(index_->ResetEpoch(kRepository, 2, std::nullopt, 1'000)).ok());
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({2, 1}));
  EXPECT_EQ(Forget(*index_, {kOne}).removed_count, 1u);
}

}  // namespace
}  // namespace kerf
