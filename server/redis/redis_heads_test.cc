// The third layout of a repository: what is written for it, what a bucket gets from its head and
// when, and what costs no more the more there is (docs/adr/0022).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "base/strings.h"
#include "server/index/codec.h"
#include "server/redis/testing/heads_fixture.h"

namespace kerf {
namespace {

using index_codec::EncodeEpoch;
using index_codec::EncodeFollowing;

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

class RedisHeadsTest : public HeadsFixture {
 protected:
  // Of ForgetOlder: the look behind its first reading of the bucket; readings are counted.
  OvertakenClient::IsIt IsSecondLook(int& read_count) const {
    return [this, &read_count](const RedisCommand& command) {
      if (command.key != Bucket()) return false;
      if (command.arguments[0] == "HGETALL") ++read_count;
      return command.arguments[0] == "EVALSHA" && read_count == 1;
    };
  }
};

TEST_F(RedisHeadsTest, AHeadIsMadeWithItsFirstBucketAndRaisedInItsPlace) {
  const auto index = Open();
  ExpectAdvance(*index, 2, 0, 0);
  EXPECT_EQ(CountOf("k:"), 0u);
  ASSERT_TRUE(Commit(*index, 2, {kOne, kBesideIt}).ok());
  EXPECT_EQ(Field(Meta(), "version"), "3");
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({2, 0}));
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({2, 0}));
  EXPECT_EQ(Field(Head(), "n"), "2");
  ExpectAdvance(*index, 3, 2, 2);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({3, 0}));
  // Nobody has touched it.
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({2, 0}));
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 2, {kOne})));
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 2, {kElsewhere})));
  EXPECT_EQ(CountOf("k:"), 1u);
  EXPECT_EQ(Stats(*index).epoch, 3u);
}

TEST_F(RedisHeadsTest, ABucketFollowsItsHeadWhereItIsAskedForMore) {
  const auto index = Open();
  const auto other = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  // It says enough, or its head says too little.
  EXPECT_EQ(VerdictOf(*other, 1, kOne), Verdict::kDuplicate);
  EXPECT_EQ(VerdictOf(*other, 4, kOne), Verdict::kUnverified);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({0, 0}));
  // What is told of the repository's epoch is the head's all the same.
  ASSERT_TRUE(Commit(*index, 3, {kElsewhere}).ok());
  const std::vector<Digest> digests = {kElsewhere.digest, kOne.digest};
  std::vector<LookupResult> both(2);
  for (int times = 0; times < 2; ++times) {  // The second time it finds both at once.
    ASSERT_TRUE(WaitFor(other->Lookup(kRepository, 1, digests, both)).ok());
    for (const LookupResult& result : both) EXPECT_EQ(result.repository_epoch, 3u);
  }
  EXPECT_EQ(VerdictOf(*other, 3, kOne), Verdict::kDuplicate);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({3, 0}));
  // A commit raises it, too; what was there is believed, and stays.
  ExpectAdvance(*index, 5, 3, 3);
  IndexEntry moved = kOne;
  moved.locator = "elsewhere";
  ASSERT_TRUE(Commit(*other, 5, {moved}).ok());
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({5, 0}));
  EXPECT_EQ(Lookup(*index, 5, kOne).locator, kOne.locator);
}

// The version was lost and written anew: the first lookup tells the epoch, as the next ones do.
TEST_F(RedisHeadsTest, WhoDoesNotExpectHeadsTellsTheirEpochAllTheSame) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  Ask({"HSET", Meta(), "version", "2"});
  const auto other = Open(RedisLayout::kLazy);
  for (int times = 0; times < 2; ++times) {
    const LookupResult result = Lookup(*other, 1, kOne);
    EXPECT_EQ(result.verdict, Verdict::kDuplicate);
    EXPECT_EQ(result.repository_epoch, 3u);
  }
}

// As lookups of a batch are: many of one bucket, which is raised once, and more than one script
// takes.
TEST_F(RedisHeadsTest, ALookupOfMoreThanAScriptTakesIsBelieved) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  std::vector<Digest> digests;
  for (int number = 0; number < 2'500; ++number) {
    IndexEntry entry = number % 7 == 0 ? kOne : kBesideIt;
    if (number % 7 != 0) entry.digest.bytes[9] = static_cast<std::uint8_t>(number);
    digests.push_back(entry.digest);
  }
  std::vector<LookupResult> results(digests.size());
  ASSERT_TRUE(WaitFor(index->Lookup(kRepository, 3, digests, results)).ok());
  for (std::size_t number = 0; number < results.size(); ++number) {
    EXPECT_EQ(results[number].verdict, number % 7 == 0 ? Verdict::kDuplicate : Verdict::kNew);
  }
}

TEST_F(RedisHeadsTest, WhatWasRemovedBeforeTheEpochCountsNoMore) {
  const auto index = Open();
  const std::vector<IndexEntry> more = {Entry(0xC2, 1, "x"), Entry(0xC3, 2, "y")};
  ASSERT_TRUE(Commit(*index, 1, {kOne, kBesideIt, more[0], more[1]}).ok());
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  EXPECT_EQ(Forget(*index, {}).removed_count, 1u);
  EXPECT_EQ(Field(Head(), "x"), "1");
  ExpectAdvance(*index, 2, 0, 0);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({0, 1}));
  EXPECT_EQ(Forget(*index, {}).removed_count, 0u);
  // A bucket that nobody has touched since is looked at, and raised: what it counted is of before.
  ForgetResult none = Forget(*index, {kOne});
  EXPECT_EQ(none.removed_count, 0u);
  EXPECT_EQ(none.epoch, 2u);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({2, 0}));
  // One that is behind when something is removed counts that alone.
  ASSERT_TRUE(Commit(*index, 2, {kOne}).ok());
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  ExpectAdvance(*index, 3, 2, 2);
  ExpectForgotten(*index, Forget(*index, {kBesideIt, more[0]}), 2);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({3, 2}));
  EXPECT_EQ(Forget(*index, {more[1]}).removed_count, 3u);
  // Told again it is no other epoch.
  ExpectAdvance(*index, 3, 3, 3);
  EXPECT_EQ(Forget(*index, {}).removed_count, 3u);
  EXPECT_EQ(Stats(*index).entry_count, 0u);
}

// While others upload behind an epoch buckets follow their heads all the time.
TEST_F(RedisHeadsTest, ForgetOlderGoesOnWhereABucketOnlyFollowsItsHeadMeanwhile) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  int read_count = 0;
  const auto other = OpenOvertaken(RedisLayout::kHeads, IsSecondLook(read_count), [&] {
    EXPECT_EQ(VerdictOf(*index, 3, kOne), Verdict::kDuplicate);
    EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({3, 0}));
  });
  EXPECT_EQ(ForgetOlder(*other, 0).epoch, 3u);
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({3, 0}));
  EXPECT_EQ(read_count, 1);
}

// A removal meanwhile is looked at again, and told.
TEST_F(RedisHeadsTest, ForgetOlderTellsWhatIsRemovedMeanwhile) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  int read_count = 0;
  const auto other = OpenOvertaken(RedisLayout::kHeads, IsSecondLook(read_count),
                                   [&] { ExpectForgotten(*index, Forget(*index, {kOne}), 1); });
  EXPECT_GE(ForgetOlder(*other, 0).removed_count, 1u);
  EXPECT_EQ(read_count, 2);
}

// Splits, repeats, replacements, and what is removed twice.
TEST_F(RedisHeadsTest, EntriesAreCountedExactly) {
  const auto index = Open();
  std::vector<IndexEntry> entries = FillBase(*index, 1, 300);
  EXPECT_EQ(Stats(*index).entry_count, 300u);
  ASSERT_TRUE(Commit(*index, 1, entries).ok());
  ASSERT_TRUE(Commit(*index, 2, entries, true).ok());
  EXPECT_EQ(Stats(*index).entry_count, 300u);
  const std::vector<IndexEntry> some(entries.begin(), entries.begin() + 100);
  ExpectForgotten(*index, Forget(*index, some), 100);
  ExpectForgotten(*index, Forget(*index, some), 0);
  EXPECT_EQ(Stats(*index).entry_count, 200u);
  // Both children of a bucket have its count.
  ASSERT_TRUE(Commit(*index, 2, some).ok());
  EXPECT_EQ(Stats(*index).entry_count, 300u);
  EXPECT_EQ(ForgetOlder(*index, 0).epoch, 0u);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({0, 0})) << "it took something for a loss";
}

// A removal is in the count of all that its bucket is split into.
TEST_F(RedisHeadsTest, ASplitKeepsWhatWasRemoved) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne, kBesideIt}).ok());
  ExpectAdvance(*index, 2, 0, 0);
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  FillBase(*index, 2, 300);
  const ForgetResult none = Forget(*index, {kOne});
  EXPECT_EQ(none.removed_count, 1u);
  EXPECT_EQ(none.epoch, 2u);
}

TEST_F(RedisHeadsTest, EpochsAndStatisticsCostNoMoreTheMoreThereIs) {
  const auto index = Open();
  const auto cost_of = [&](const auto& call) {
    const std::uint64_t before = index->counters().commands;
    call();
    return index->counters().commands - before;
  };
  std::uint64_t epoch = 1;
  const auto tell = [&] {
    const auto told = WaitFor(index->AdvanceEpoch(kRepository, epoch + 1, 0));
    ASSERT_TRUE(told.ok()) << told.status();
    ++epoch;
  };
  const auto count = [&] { Stats(*index); };
  const auto ask = [&] { Forget(*index, {}); };
  ASSERT_TRUE(Commit(*index, 1, SomeEntries(100)).ok());
  tell();
  std::vector<std::uint64_t> few = {cost_of(tell), cost_of(count), cost_of(ask)};
  for (int round = 0; round < 20 && CountOf("k:") < 40; ++round) {
    ASSERT_TRUE(Commit(*index, epoch, SomeEntries(2'000), true).ok());
  }
  EXPECT_GE(CountOf("k:"), 40u);
  const std::vector<std::uint64_t> many = {cost_of(tell), cost_of(count), cost_of(ask)};
  if (MayHaveRepeated(*index)) return;
  EXPECT_EQ(few, many);
  EXPECT_EQ(Stats(*index).entry_count, 2'000u);
}

// The version is that of heads, and what is there has none: each gets one with the next epoch.
TEST_F(RedisHeadsTest, BucketsOfBeforeGetAHeadWithTheNextEpoch) {
  const auto before = Open(RedisLayout::kLazy);
  const std::vector<IndexEntry> entries = FillBase(*before, 1, 300);
  ExpectAdvance(*before, 2, 0, 0);
  ExpectForgotten(*before, Forget(*before, {entries[0]}), 1);
  Ask({"HSET", Meta(), "version", "3"});
  const auto index = Open();
  // What lies there is read and written as it was.
  EXPECT_EQ(VerdictOf(*index, 2, entries[1]), Verdict::kDuplicate);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 1, {kOne})));
  EXPECT_EQ(Forget(*index, {entries[0]}).epoch, 2u);
  EXPECT_EQ(Forget(*index, {entries[0]}).removed_count, 1u);
  EXPECT_EQ(Stats(*index).epoch, 2u);
  EXPECT_EQ(Stats(*index).entry_count, 299u);
  EXPECT_EQ(CountOf(Head()), 0u);
  ExpectAdvance(*index, 3, 2, 2);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({3, 0}));
  EXPECT_EQ(Field(Head(), "n"), "299");
  EXPECT_EQ(VerdictOf(*index, 3, entries[1]), Verdict::kDuplicate);
  EXPECT_EQ(Forget(*index, {entries[0]}).removed_count, 0u);
  EXPECT_EQ(ForgetOlder(*index, 0).epoch, 3u);
  // One that has it in memory as it was goes by what it meets.
  EXPECT_EQ(VerdictOf(*before, 3, entries[2]), Verdict::kDuplicate);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*before, 2, {entries[0]})));
  ASSERT_TRUE(Commit(*before, 3, {entries[0]}).ok());
  EXPECT_EQ(Stats(*before).entry_count, 300u);
}

// As 0.1.0 does that has not heard that its Redis was emptied: what is there has heads, and what it
// has made has none.
TEST_F(RedisHeadsTest, AVersionThatIsWrittenOverItDecidesNothing) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectAdvance(*index, 3, 0, 0);
  Ask({"HSET", Meta(), "version", "1"});
  for (std::uint32_t base = 0; base < kBase; ++base) {
    Ask({"HSET", Bucket(base), "e", EncodeEpoch({0, 0})});
  }
  const auto later = Open(RedisLayout::kLazy);
  for (RedisIndex* each : {index.get(), later.get()}) {
    EXPECT_EQ(Stats(*each).epoch, 0u);
    EXPECT_EQ(VerdictOf(*each, 3, kOne), Verdict::kDuplicate);
    EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*each, 2, {kBesideIt})));
  }
  ExpectAdvance(*later, 4, 0, 0);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({4, 0}));
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 3, {kBesideIt})));
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 3, {kElsewhere})));
  EXPECT_EQ(VerdictOf(*index, 4, kOne), Verdict::kDuplicate);
  EXPECT_EQ(Stats(*later).epoch, 4u);
}

TEST_F(RedisHeadsTest, AnEpochIsResetFromItsHeadsOn) {
  const auto index = Open();
  const std::vector<IndexEntry> entries = FillBase(*index, 5, 300);
  ASSERT_TRUE(Commit(*index, 5, {kElsewhere}).ok());
  ExpectAdvance(*index, 9, 0, 0);
  EXPECT_EQ(VerdictOf(*index, 9, entries[0]), Verdict::kDuplicate);
  // Of some nobody has asked since, and one is lost.
  Ask({"DEL", Bucket(1)});
  ASSERT_TRUE(WaitFor(index->ResetEpoch(kRepository, 4, std::nullopt, 1'000'000)).ok());
  EXPECT_EQ(Stats(*index).epoch, 4u);
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({4, 0}));
  for (const IndexEntry& entry : entries) {
    ASSERT_EQ(VerdictOf(*index, 5, entry), Verdict::kUnverified);
    ASSERT_EQ(VerdictOf(*index, 4, entry), Verdict::kDuplicate);
  }
  ASSERT_TRUE(Commit(*index, 4, {kElsewhere}).ok());
  ExpectAdvance(*index, 5, 4, 4);
}

// Behind a head that was reset nobody sees a bucket that was not: one that says a later epoch would
// be believed as far as that, though it was to be believed no more.
TEST_F(RedisHeadsTest, AResetThatIsNotDoneLetsNoEpochBelowWhatWasThere) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 5, {kElsewhere, kOne}).ok());
  ExpectAdvance(*index, 9, 0, 0);
  EXPECT_EQ(VerdictOf(*index, 9, kOne), Verdict::kDuplicate);
  const auto step = WaitFor(index->ResetEpoch(kRepository, 4, std::nullopt, 1));
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_TRUE(step->last.has_value());
  EXPECT_EQ(Field(Meta(), "reset"), index_codec::EncodeNumber(9));
  // Its next step has died behind the heads.
  Ask({"HSET", Head(), "e", EncodeHead(4)});
  EXPECT_EQ(EpochAt(Bucket()), EncodeFollowing({9, 0}));
  const auto told = WaitFor(index->AdvanceEpoch(kRepository, 5, 4));
  EXPECT_TRUE(absl::IsFailedPrecondition(told.status())) << told.status();
  EXPECT_THAT(std::string(told.status().message()), ::testing::HasSubstr("kerf repo reset-epoch"));
  ASSERT_TRUE(WaitFor(index->ResetEpoch(kRepository, 4, step->last, 1'000)).ok());
  EXPECT_EQ(Field(Meta(), "reset"), "");
  EXPECT_EQ(VerdictOf(*index, 5, kOne), Verdict::kUnverified);
  ExpectAdvance(*index, 5, 4, 4);
}

// Once a later epoch is told than any that was there, each bucket follows that.
TEST_F(RedisHeadsTest, AResetThatIsNotDoneIsEndedByALaterEpoch) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 5, {kElsewhere, kOne}).ok());
  ExpectAdvance(*index, 9, 0, 0);
  ASSERT_TRUE(WaitFor(index->ResetEpoch(kRepository, 4, std::nullopt, 1)).ok());
  // Another one from the start forgets nothing of it.
  ASSERT_TRUE(WaitFor(index->ResetEpoch(kRepository, 3, std::nullopt, 1)).ok());
  EXPECT_EQ(Field(Meta(), "reset"), index_codec::EncodeNumber(9));
  ExpectAdvance(*index, 10, 0, 3);
  EXPECT_EQ(Field(Meta(), "reset"), "");
  EXPECT_EQ(VerdictOf(*index, 10, kOne), Verdict::kDuplicate);
}

TEST_F(RedisHeadsTest, AResetKeepsWhatWasRemovedSinceTheEpoch) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne, kBesideIt}).ok());
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  ASSERT_TRUE(WaitFor(index->ResetEpoch(kRepository, 5, std::nullopt, 1'000)).ok());
  EXPECT_EQ(Forget(*index, {kOne}).removed_count, 1u);
  ExpectAdvance(*index, 6, 5, 5);
  ASSERT_TRUE(WaitFor(index->ResetEpoch(kRepository, 4, std::nullopt, 1'000)).ok());
  EXPECT_EQ(Forget(*index, {kOne}).removed_count, 0u);
}

TEST_F(RedisHeadsTest, ADroppedRepositoryLeavesNothing) {
  const auto index = Open();
  FillBase(*index, 1, 300);
  ExpectAdvance(*index, 3, 0, 0);
  ASSERT_TRUE(WaitFor(index->Drop(kRepository, std::nullopt, 1'000'000)).ok());
  EXPECT_EQ(CountOf(Cat("?:{", tag_)), 0u);
}

// The way from one layout to another: dropped, and made again by who makes such. Who has it in
// memory as it was goes on with it as it is.
TEST_F(RedisHeadsTest, WhatIsDroppedIsMadeAgainAsWhoMakesItDoes) {
  const auto two = Open(RedisLayout::kLazy);
  const auto three = Open(RedisLayout::kHeads);
  const std::vector<std::pair<RedisIndex*, RedisIndex*>> ways = {{two.get(), three.get()},
                                                                 {three.get(), two.get()}};
  for (const auto& [from, to] : ways) {
    ASSERT_TRUE(Commit(*from, 1, {kOne, kElsewhere}).ok());
    EXPECT_EQ(Field(Meta(), "version"), from == two.get() ? "2" : "3");
    ExpectAdvance(*from, 2, 0, 0);
    EXPECT_EQ(VerdictOf(*to, 2, kOne), Verdict::kDuplicate);
    ASSERT_TRUE(WaitFor(to->Drop(kRepository, std::nullopt, 1'000'000)).ok());
    ASSERT_TRUE(Commit(*to, 3, {kOne}).ok());
    EXPECT_EQ(Field(Meta(), "version"), to == two.get() ? "2" : "3");
    EXPECT_EQ(EpochAt(Head()), to == two.get() ? "" : EncodeEpoch({0, 0}));
    EXPECT_EQ(VerdictOf(*from, 3, kElsewhere), Verdict::kNew);
    EXPECT_EQ(VerdictOf(*from, 3, kOne), Verdict::kDuplicate);
    ASSERT_TRUE(Commit(*from, 3, {kElsewhere, kBesideIt}).ok());
    ExpectAdvance(*to, 4, 0, 0);
    EXPECT_EQ(VerdictOf(*from, 4, kElsewhere), Verdict::kDuplicate);
    EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*from, 3, {kOne})));
    EXPECT_EQ(Stats(*from).epoch, 4u);
    ASSERT_TRUE(WaitFor(to->Drop(kRepository, std::nullopt, 1'000'000)).ok());
    EXPECT_EQ(CountOf(Cat("?:{", tag_)), 0u);
  }
}

// A Redis that has reached maxmemory takes no entries; it takes all that a collection asks.
TEST_F(RedisHeadsTest, ARedisThatIsFullRaisesBelievesAndForgets) {
  const auto index = Open();
  const std::vector<IndexEntry> entries = FillBase(*index, 1, 300);
  Ask({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(Commit(*index, 1, {kElsewhere}).code(), absl::StatusCode::kResourceExhausted);
  ExpectAdvance(*index, 2, 0, 0);
  EXPECT_EQ(VerdictOf(*index, 2, entries[0]), Verdict::kDuplicate);
  ExpectForgotten(*index, Forget(*index, {entries[1]}), 1);
  EXPECT_EQ(Forget(*index, {entries[1]}).removed_count, 1u);
  EXPECT_EQ(ForgetOlder(*index, 0).epoch, 2u);
  EXPECT_EQ(Stats(*index).entry_count, 299u);
  ASSERT_TRUE(WaitFor(index->ResetEpoch(kRepository, 1, std::nullopt, 1'000'000)).ok());
  EXPECT_EQ(Stats(*index).epoch, 1u);
}

// What is in a Redis today is read for ever; it was written by hand from docs/adr/0022.
TEST_F(RedisHeadsTest, WhatIsLeftByTheThirdLayoutIsRead) {
  std::ifstream file("server/redis/testdata/layout_3.commands");
  std::string line;
  int count = 0;
  while (std::getline(file, line)) {
    if (line.starts_with('#')) continue;
    std::vector<std::string> words;
    for (const auto word : absl::StrSplit(line, ' ')) {
      std::string plain;
      ASSERT_TRUE(absl::CUnescape(word, &plain)) << line;
      words.push_back(std::move(plain));
    }
    Ask(words);
    ++count;
  }
  ASSERT_EQ(count, 5);
  const auto index = Open();
  EXPECT_EQ(Stats(*index).entry_count, 2u);
  EXPECT_EQ(Stats(*index).epoch, 3u);
  EXPECT_EQ(Forget(*index, {}).removed_count, 2u);
  EXPECT_EQ(Forget(*index, {}).epoch, 3u);
  // Base bucket 1 is behind its head, and 3 has counted a removal of the epoch.
  EXPECT_EQ(VerdictOf(*index, 3, kElsewhere), Verdict::kDuplicate);
  EXPECT_EQ(EpochAt(Bucket(1)), EncodeFollowing({3, 0}));
  EXPECT_EQ(VerdictOf(*index, 3, kOne), Verdict::kDuplicate);
  EXPECT_EQ(VerdictOf(*index, 4, kOne), Verdict::kUnverified);
  EXPECT_EQ(Forget(*index, {kBesideIt}).removed_count, 2u);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 2, {kBesideIt})));
  ExpectAdvance(*index, 4, 3, 3);
}

// Who knows the first two layouts alone reads neither the repository nor a bucket of this one, and
// writes nothing.
TEST_F(RedisHeadsTest, WhatABucketSaysIsNoEpochToKerfdOfBefore) {
  const auto index = Open();
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  ExpectForgotten(*index, Forget(*index, {kBesideIt}), 0);
  EXPECT_TRUE(absl::IsDataLoss(index_codec::ParseEpoch(EpochAt(Bucket())).status()));
  ExpectForgotten(*index, Forget(*index, {kOne}), 1);
  EXPECT_TRUE(absl::IsDataLoss(index_codec::ParseEpoch(EpochAt(Bucket())).status()));
}

// Workers of all settings go on with what one of them has begun.
TEST_F(RedisHeadsTest, WhoMakesOtherRepositoriesGoesOnWithThisOne) {
  ASSERT_TRUE(Commit(*Open(), 1, {kOne}).ok());
  std::uint64_t epoch = 2;
  for (const RedisLayout layout : {RedisLayout::kWhole, RedisLayout::kLazy}) {
    const auto other = Open(layout);
    ASSERT_TRUE(Commit(*other, epoch, {kElsewhere, kBesideIt}).ok());
    ExpectAdvance(*other, epoch, 0, epoch == 2 ? 0 : 2);
    EXPECT_EQ(Stats(*other).entry_count, 3u);
    EXPECT_EQ(Stats(*other).epoch, epoch);
    EXPECT_EQ(VerdictOf(*other, epoch, kOne), Verdict::kDuplicate);
    EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*other, epoch - 1, {kOne})));
    EXPECT_EQ(EpochAt(Head()), EncodeEpoch({epoch, 0}));
    EXPECT_EQ(Field(Meta(), "version"), "3");
    epoch += 2;
  }
}

// Somebody else makes a repository between the look whether there is one and the making of it.
TEST_F(RedisHeadsTest, WhoWasOvertakenAtMakingItKnowsWhatItIs) {
  const auto is_making = [this, count = 0](const RedisCommand& command) mutable {
    return command.key == Meta() && ++count == 2;
  };
  const auto index = OpenOvertaken(RedisLayout::kLazy, is_making, [this] {
    Ask({"HSET", Meta(), "version", "3", "name", kRepository.name, "digest", "blake3", "base_bits",
         "2"});
  });
  ASSERT_TRUE(Commit(*index, 1, {kOne}).ok());
  EXPECT_EQ(EpochAt(Head()), EncodeEpoch({0, 0}));
  // When it says again what it was.
  Ask({"DEL", Meta()});
  ExpectAdvance(*index, 2, 0, 0);
  EXPECT_EQ(Field(Meta(), "version"), "3");
}

}  // namespace
}  // namespace kerf
