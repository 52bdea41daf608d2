#include "server/index/testing/conformance.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/index/testing/conformance_calls.h"

namespace kerf {

using namespace conformance;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(IndexConformance);

void IndexConformance::ForgetOne(const RepositoryId& repository, const IndexEntry& entry,
                                 std::uint64_t expected_count) {
  const auto result = WaitFor(index_->Forget(repository, std::span(&entry, 1)));
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectForgotten(GetParam(), *result, expected_count);
}

Index& IndexConformance::IndexForThread() {
  if (!GetParam().another) return *index_;
  others_.push_back(GetParam().another());
  return others_.back() == nullptr ? *index_ : *others_.back();
}

TEST_P(IndexConformance, EmptyIndexKnowsNothing) {
  ExpectSame(LookupOne(*index_, 1, DigestOf(kRepository, 1)), {Verdict::kNew, 0, ""});
  EXPECT_TRUE(WaitFor(index_->Lookup(kRepository, 1, {}, {})).ok());
  EXPECT_TRUE(WaitFor(index_->Commit(kRepository, 1, {}, false)).ok());
  EXPECT_EQ(WaitFor(index_->Forget(kRepository, {}))->forgotten_count, 0u);
  EXPECT_TRUE(WaitFor(index_->Scan(kRepository, std::nullopt, 10))->empty());
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 0u);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 0u);
  EXPECT_FALSE(index_->backend_name().empty());
}

TEST_P(IndexConformance, CommittedIsDuplicateWithItsLocatorAndLength) {
  const std::string binary("\0\xFF\n", 3);
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, binary, 0)).ok());
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(2, std::string(64, 'x'), 0xFFFFFFFF)).ok());
  ExpectSame(LookupOne(*index_, 1, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 0, binary});
  ExpectSame(LookupOne(*index_, 1, DigestOf(kRepository, 2)),
             {Verdict::kDuplicate, 0xFFFFFFFF, std::string(64, 'x')});
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 3)).verdict, Verdict::kNew);
}

TEST_P(IndexConformance, FirstCommitOfAnEpochWins) {
  ASSERT_TRUE(CommitOne(*index_, 5, EntryOf(1, "first", 1)).ok());
  ASSERT_TRUE(CommitOne(*index_, 5, EntryOf(1, "second", 2)).ok());
  ASSERT_TRUE(CommitOne(*index_, 4, EntryOf(1, "older session", 3)).ok());
  ExpectSame(LookupOne(*index_, 5, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 1, "first"});
}

TEST_P(IndexConformance, OneCallIsOneCommitAfterTheOther) {
  const std::vector<IndexEntry> twice = {EntryOf(1, "first"), EntryOf(2, "other"),
                                         EntryOf(1, "second")};
  ASSERT_TRUE(WaitFor(index_->Commit(kRepository, 1, twice, /*replace=*/false)).ok());
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).locator, "first");
  ASSERT_TRUE(WaitFor(index_->Commit(kRepository, 1, twice, /*replace=*/true)).ok());
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).locator, "second");
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 2u);
  const std::vector<IndexEntry> gone = {EntryOf(1, "second"), EntryOf(1, ""), EntryOf(3, "")};
  ExpectForgotten(GetParam(), *WaitFor(index_->Forget(kRepository, gone)), 1);
}

// Larger than any leaf's batch, and no digest twice: the first and the last of each batch count.
TEST_P(IndexConformance, LargeCallsLeaveNothingOut) {
  constexpr std::uint64_t kCount = 5'000;
  std::vector<IndexEntry> entries;
  entries.reserve(kCount);
  std::vector<Digest> digests;
  digests.reserve(kCount);
  for (std::uint64_t number = 0; number < kCount; ++number) {
    entries.push_back(EntryOf(number, std::to_string(number)));
    digests.push_back(entries.back().digest);
  }
  ASSERT_TRUE(WaitFor(index_->Commit(kRepository, 1, entries, false)).ok());
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, kCount);
  std::vector<LookupResult> results(kCount);
  ASSERT_TRUE(WaitFor(index_->Lookup(kRepository, 1, digests, results)).ok());
  for (std::uint64_t number = 0; number < kCount; ++number) {
    ASSERT_EQ(results[number].verdict, Verdict::kDuplicate) << number;
    ASSERT_EQ(results[number].locator, std::to_string(number));
  }
  ExpectForgotten(GetParam(), *WaitFor(index_->Forget(kRepository, entries)), kCount);
  EXPECT_TRUE(WaitFor(index_->Scan(kRepository, std::nullopt, 1))->empty());
}

TEST_P(IndexConformance, HitOfAnEarlierEpochIsUnverifiedUntilTheEpochAdvances) {
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "a")).ok());
  ExpectSame(LookupOne(*index_, 2, DigestOf(kRepository, 1)), {Verdict::kUnverified, 7, "a"});
  ExpectEpochBefore(GetParam(), WaitFor(index_->AdvanceEpoch(kRepository, 2, 0)), 0, 2);
  ExpectSame(LookupOne(*index_, 2, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 7, "a"});
  EXPECT_EQ(LookupOne(*index_, 3, DigestOf(kRepository, 1)).verdict, Verdict::kUnverified);
}

TEST_P(IndexConformance, CommitOfALaterEpochReplacesTheUnverified) {
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "old", 1)).ok());
  ASSERT_TRUE(CommitOne(*index_, 2, EntryOf(1, "new", 2)).ok());
  ExpectSame(LookupOne(*index_, 2, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 2, "new"});
  // But not what the repository's epoch vouches for.
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 3, 0)).ok());
  ASSERT_TRUE(CommitOne(*index_, 3, EntryOf(1, "newer", 3)).ok());
  ExpectSame(LookupOne(*index_, 3, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 2, "new"});
}

TEST_P(IndexConformance, ReplaceMovesTheLocatorAndNeverLowersTheEpoch) {
  ASSERT_TRUE(CommitOne(*index_, 5, EntryOf(1, "old")).ok());
  ASSERT_TRUE(CommitOne(*index_, 2, EntryOf(1, "moved"), /*replace=*/true).ok());
  ExpectSame(LookupOne(*index_, 5, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 7, "moved"});
  ASSERT_TRUE(CommitOne(*index_, 6, EntryOf(1, "again"), /*replace=*/true).ok());
  ExpectSame(LookupOne(*index_, 6, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 7, "again"});
}

TEST_P(IndexConformance, ForgetRemovesUnlessTheChunkHasMoved) {
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "a")).ok());
  ForgetOne(kRepository, EntryOf(1, "elsewhere"), 0);
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).verdict, Verdict::kDuplicate);
  ForgetOne(kRepository, EntryOf(1, "a", 12345), 1);
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).verdict, Verdict::kNew);
  ForgetOne(kRepository, EntryOf(1, "a"), 0);
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "b")).ok());
  ForgetOne(kRepository, EntryOf(1, ""), 1);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 0u);
}

TEST_P(IndexConformance, ALookupTellsTheRepositorysEpoch) {
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "a")).ok());
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).repository_epoch, 0u);
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 3, 0)).ok());
  // Whatever the epoch of the session is, and of an entry that is not believed, too.
  for (const std::uint64_t session_epoch : {1, 3, 4}) {
    EXPECT_EQ(LookupOne(*index_, session_epoch, DigestOf(kRepository, 1)).repository_epoch, 3u);
  }
  // Of what is not there a leaf may know no epoch, and never another one.
  const std::uint64_t told = LookupOne(*index_, 1, DigestOf(kRepository, 2)).repository_epoch;
  EXPECT_TRUE(told == 0 || told == 3) << told;
}

// Whatever has been looked up or written of it since: what a leaf keeps for itself of an epoch that
// was told changes nothing.
TEST_P(IndexConformance, EntriesOfEachEpochAreBelievedBehindEachOther) {
  Random random(TestSeed());
  constexpr std::uint64_t kEpochs = 3;
  constexpr std::uint64_t kOfEach = 40;
  std::vector<IndexEntry> entries;
  for (std::uint64_t number = 0; number < kEpochs * kOfEach; ++number) {
    entries.push_back(EntryOf(number, Cat("at ", number)));
    ASSERT_TRUE(CommitOne(*index_, 1 + number / kOfEach, entries.back()).ok());
  }
  for (std::uint64_t told = 0; told < kEpochs + 2; ++told) {
    if (told > 0) {
      ExpectEpochBefore(GetParam(), WaitFor(index_->AdvanceEpoch(kRepository, told, told - 1)),
                        told - 1, told);
    }
    for (int round = GetParam().Rounds(60); round > 0; --round) {
      const std::uint64_t number = random.Below(entries.size());
      const std::uint64_t own = 1 + number / kOfEach;
      const std::uint64_t session = random.Below(kEpochs + 3);
      const LookupResult result = LookupOne(*index_, session, entries[number].digest);
      EXPECT_EQ(result.verdict,
                std::max(own, told) >= session ? Verdict::kDuplicate : Verdict::kUnverified)
          << "of epoch " << own << " in session " << session << " behind " << told;
      EXPECT_EQ(result.locator, entries[number].locator);
      // One of now that changes nothing: what is there holds, or the session comes too late.
      const std::uint64_t commits = random.Below(std::max(own, told) + 1);
      EXPECT_EQ(CommitOne(*index_, commits, {entries[number].digest, 7, "another"}).ok(),
                commits >= told);
      const auto none = WaitFor(index_->Forget(kRepository, std::span(&entries[number], 0)));
      EXPECT_EQ(none->epoch, told);
    }
    EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, entries.size());
  }
}

TEST_P(IndexConformance, EpochNeverFalls) {
  ExpectEpochBefore(GetParam(), WaitFor(index_->AdvanceEpoch(kRepository, 3, 0)), 0, 3);
  EXPECT_EQ(WaitFor(index_->AdvanceEpoch(kRepository, 3, 0)).value(), 3u);
  EXPECT_EQ(WaitFor(index_->AdvanceEpoch(kRepository, 2, 0)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(WaitFor(index_->AdvanceEpoch(kRepository, UINT64_MAX, 0)).status().code(),
            absl::StatusCode::kInvalidArgument);
  ExpectEpochBefore(GetParam(), WaitFor(index_->AdvanceEpoch(kRepository, 9, 0)), 3, 9);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 9u);
}

// The limits of docs/spec/protocol.md. An entry of an epoch that no store will ever reach would be
// DUPLICATE for ever, and no ForgetOlder would remove it.
TEST_P(IndexConformance, AnEpochThatNoStoreCanHaveIsRefused) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto expect_refused = [&](std::uint64_t epoch) {
    const Digest digest = DigestOf(kRepository, 1);
    LookupResult result;
    EXPECT_EQ(
        WaitFor(index_->Lookup(kRepository, epoch, std::span(&digest, 1), std::span(&result, 1)))
            .code(),
        invalid)
        << epoch;
    for (const bool replace : {false, true}) {
      EXPECT_EQ(CommitOne(*index_, epoch, EntryOf(1, "of the future"), replace).code(), invalid)
          << epoch;
    }
    EXPECT_EQ(WaitFor(index_->ForgetOlder(kRepository, epoch, std::nullopt, 10)).status().code(),
              invalid)
        << epoch;
    EXPECT_EQ(WaitFor(index_->AdvanceEpoch(kRepository, epoch, 0)).status().code(), invalid)
        << epoch;
  };
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 40;
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  constexpr std::uint64_t kLast = std::uint64_t{1} << 62;
  // Of a repository that there is not yet.
  for (const std::uint64_t epoch : {kFirst + 1, kLast, kLast + 1, UINT64_MAX}) {
    expect_refused(epoch);
  }
  // A new index, or one that has gone back to its beginning, meets a store that has counted on.
  ASSERT_TRUE(CommitOne(*index_, 1000, EntryOf(2, "of a store at 1000")).ok());
  EXPECT_EQ(LookupOne(*index_, 1000, DigestOf(kRepository, 2)).verdict, Verdict::kDuplicate);
  ASSERT_TRUE(CommitOne(*index_, kFirst, EntryOf(3, "the last")).ok());
  EXPECT_EQ(LookupOne(*index_, kFirst, DigestOf(kRepository, 3)).verdict, Verdict::kDuplicate);
  for (const std::uint64_t epoch : {kFirst + 1, kLast, UINT64_MAX}) expect_refused(epoch);
  // The limit goes with the epoch that the index has been told, and so any store gets there.
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, kFirst, 0)).ok());
  EXPECT_EQ(LookupOne(*index_, kFirst + kStep, DigestOf(kRepository, 3)).verdict,
            Verdict::kUnverified);
  ASSERT_TRUE(CommitOne(*index_, kFirst + kStep, EntryOf(4, "of a later one")).ok());
  expect_refused(kFirst + kStep + 1);
  if (GetParam().reopen) index_ = GetParam().reopen(std::move(index_));
  expect_refused(kFirst + kStep + 1);
  // What was refused has written nothing.
  EXPECT_EQ(LookupOne(*index_, kFirst, DigestOf(kRepository, 1)).verdict, Verdict::kNew);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 3u);
}

TEST_P(IndexConformance, AnEpochThatIsNotReachedIsNotRaised) {
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 3, 0)).ok());
  EXPECT_EQ(WaitFor(index_->AdvanceEpoch(kRepository, 5, 4)).value(), 3u);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 3u);
  EXPECT_TRUE(CommitOne(*index_, 3, EntryOf(1, "a")).ok());
  ExpectEpochBefore(GetParam(), WaitFor(index_->AdvanceEpoch(kRepository, 5, 3)), 3, 5);
  // What was raised by a call whose answer was lost.
  EXPECT_EQ(WaitFor(index_->AdvanceEpoch(kRepository, 5, 4)).value(), 5u);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 5u);
}

TEST_P(IndexConformance, ForgetSaysTheEpochAtWhichItLooked) {
  EXPECT_EQ(WaitFor(index_->Forget(kRepository, {}))->epoch, 0u);
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "a")).ok());
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 4, 0)).ok());
  EXPECT_EQ(WaitFor(index_->Forget(kRepository, {}))->epoch, 4u);
}

// A collection believes an index only if nobody has removed what it asks about since the epoch was
// raised: somebody else's removal may be lost, together with all that came behind it.
TEST_P(IndexConformance, ForgetSaysWhatAnybodyHasRemovedSinceTheEpochWasRaised) {
  const IndexEntry entry = EntryOf(1, "a");
  const auto removed_count = [this, &entry] {
    return WaitFor(index_->Forget(kRepository, std::span(&entry, 1)))->removed_count;
  };
  EXPECT_EQ(removed_count(), 0u);
  ASSERT_TRUE(CommitOne(*index_, 1, entry).ok());
  ForgetOne(kRepository, EntryOf(1, "elsewhere"), 0);
  EXPECT_EQ(WaitFor(index_->Forget(kRepository, {}))->removed_count, 0u);
  ForgetOne(kRepository, entry, 1);
  EXPECT_EQ(removed_count(), 1u);
  EXPECT_EQ(WaitFor(index_->Forget(kRepository, {}))->removed_count, 1u);
  EXPECT_EQ(WaitFor(index_->ForgetOlder(kRepository, 1, std::nullopt, 10))->forgotten.removed_count,
            1u);
  // Of another epoch; not of the same one told again.
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 2, 0)).ok());
  EXPECT_EQ(removed_count(), 0u);
  ASSERT_TRUE(CommitOne(*index_, 2, entry).ok());
  EXPECT_EQ(removed_count(), 1u);
  ASSERT_TRUE(CommitOne(*index_, 2, entry).ok());
  EXPECT_EQ(removed_count(), 2u);
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 2, 0)).ok());
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 9, 8)).ok());
  EXPECT_EQ(removed_count(), 2u);
  if (GetParam().reopen) index_ = GetParam().reopen(std::move(index_));
  EXPECT_EQ(removed_count(), 2u);
  EXPECT_EQ(WaitFor(index_->Forget({"other", DigestAlgorithm::kBlake3}, {}))->removed_count, 0u);
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 3, 2)).ok());
  EXPECT_EQ(removed_count(), 0u);
}

TEST_P(IndexConformance, ForgetOlderKeepsWhatTheEpochsSessionsCommitted) {
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "old")).ok());
  ASSERT_TRUE(CommitOne(*index_, 2, EntryOf(2, "kept")).ok());
  ASSERT_TRUE(CommitOne(*index_, 3, EntryOf(3, "of later")).ok());
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(4, "found")).ok());
  // As a collection does that has found the chunk.
  ASSERT_TRUE(CommitOne(*index_, 2, EntryOf(4, "found"), /*replace=*/true).ok());
  const auto none = WaitFor(index_->ForgetOlder(kRepository, 1, std::nullopt, 100));
  EXPECT_EQ(none->forgotten.forgotten_count, 0u);
  EXPECT_FALSE(none->last.has_value());
  const auto result = WaitFor(index_->ForgetOlder(kRepository, 2, std::nullopt, 100));
  ExpectForgotten(GetParam(), result->forgotten, 1);
  EXPECT_EQ(result->forgotten.removed_count, 1u);
  EXPECT_FALSE(result->last.has_value());
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).verdict, Verdict::kNew);
  EXPECT_EQ(LookupOne(*index_, 2, DigestOf(kRepository, 2)).locator, "kept");
  EXPECT_EQ(LookupOne(*index_, 2, DigestOf(kRepository, 3)).locator, "of later");
  EXPECT_EQ(LookupOne(*index_, 2, DigestOf(kRepository, 4)).locator, "found");
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 3u);
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 7, 0)).ok());
  EXPECT_EQ(WaitFor(index_->ForgetOlder(kRepository, 2, std::nullopt, 100))->forgotten.epoch, 7u);
}

TEST_P(IndexConformance, ForgetOlderGoesThroughTheIndexInParts) {
  constexpr std::uint64_t kCount = 3'000;
  std::vector<IndexEntry> entries;
  entries.reserve(kCount);
  for (std::uint64_t number = 0; number < kCount; ++number) entries.push_back(EntryOf(number, "a"));
  ASSERT_TRUE(WaitFor(index_->Commit(kRepository, 1, entries, false)).ok());
  ASSERT_TRUE(WaitFor(index_->Commit({"other", DigestAlgorithm::kBlake3}, 1, entries, false)).ok());
  ForgetResult forgotten;
  std::size_t call_count = 0;
  std::optional<Digest> after;
  do {
    const auto result = WaitFor(index_->ForgetOlder(kRepository, 2, after, 100));
    ASSERT_TRUE(result.ok()) << result.status();
    forgotten.forgotten_count += result->forgotten.forgotten_count;
    forgotten.removed_count += result->forgotten.removed_count;
    after = result->last;
    ++call_count;
  } while (after.has_value());
  ExpectForgotten(GetParam(), forgotten, kCount);
  EXPECT_GT(call_count, 1u);
  EXPECT_TRUE(WaitFor(index_->Scan(kRepository, std::nullopt, 1))->empty());
  EXPECT_EQ(WaitFor(index_->Stats({"other", DigestAlgorithm::kBlake3}))->entry_count, kCount);
}

TEST_P(IndexConformance, CommitBehindTheEpochIsRefusedAndWritesNothing) {
  ASSERT_TRUE(CommitOne(*index_, 4, EntryOf(1, "old")).ok());
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 5, 0)).ok());
  const std::vector<IndexEntry> late = {EntryOf(1, "late"), EntryOf(2, "late")};
  for (const bool replace : {false, true}) {
    const absl::Status status = WaitFor(index_->Commit(kRepository, 4, late, replace));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(LookupOne(*index_, 5, DigestOf(kRepository, 1)).locator, "old");
    EXPECT_EQ(LookupOne(*index_, 5, DigestOf(kRepository, 2)).verdict, Verdict::kNew);
  }
  EXPECT_TRUE(WaitFor(index_->Commit({"other", DigestAlgorithm::kBlake3}, 4, late, false)).ok());
  EXPECT_TRUE(WaitFor(index_->Commit(kRepository, 5, late, true)).ok());
  EXPECT_EQ(LookupOne(*index_, 5, DigestOf(kRepository, 1)).locator, "late");
}

TEST_P(IndexConformance, ScanPagesInDigestOrder) {
  std::vector<IndexEntry> entries;
  entries.reserve(304);
  for (std::uint64_t number = 0; number < 300; ++number) {
    entries.push_back(EntryOf(number, "at " + std::to_string(number)));
  }
  // Both ends of the order, each with a neighbour that differs in the last bit.
  for (const std::uint8_t fill : {0x00, 0xFF}) {
    for (const std::uint8_t flip : {0, 1}) {
      IndexEntry entry{{}, 1, "edge"};
      entry.digest.bytes.fill(fill);
      entry.digest.bytes.back() ^= flip;
      entries.push_back(entry);
    }
  }
  ASSERT_TRUE(WaitFor(index_->Commit(kRepository, 1, entries, false)).ok());
  std::sort(entries.begin(), entries.end(),
            [](const IndexEntry& a, const IndexEntry& b) { return a.digest < b.digest; });
  for (const std::size_t limit : {1u, 7u, 304u, 1000u}) {
    EXPECT_EQ(ScanAll(*index_, kRepository, limit), entries) << limit;
  }
  EXPECT_TRUE(WaitFor(index_->Scan(kRepository, std::nullopt, 0))->empty());
  // From between two entries.
  Digest between = entries[100].digest;
  between.bytes[20] ^= 1;
  const std::size_t next = between < entries[100].digest ? 100 : 101;
  EXPECT_EQ(WaitFor(index_->Scan(kRepository, between, 1))->front(), entries[next]);
}

TEST_P(IndexConformance, RepositoriesNeverMeet) {
  // Names that are prefixes of each other, with everything that could be taken for a separator.
  std::vector<RepositoryId> repositories;
  for (const char* name : {"a", "aa", "a.a", "a-", "A", "-", ".", "..", "a_a.a-a"}) {
    for (const DigestAlgorithm algorithm :
         {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128}) {
      repositories.push_back({name, algorithm});
    }
  }
  repositories.push_back({std::string(kMaxRepositoryNameBytes, 'a'), DigestAlgorithm::kBlake3});
  // One value for all of them: short enough for every algorithm, and made of their names' letters.
  Digest digest;
  std::fill_n(digest.bytes.begin(), 16, static_cast<std::uint8_t>('a'));
  const auto entry_of = [&digest](std::size_t index) {
    return IndexEntry{digest, static_cast<std::uint32_t>(index), std::to_string(index)};
  };
  for (std::size_t index = 0; index < repositories.size(); ++index) {
    EXPECT_EQ(LookupOne(*index_, 1, digest, repositories[index]).verdict, Verdict::kNew);
    ASSERT_TRUE(CommitOne(*index_, 1, entry_of(index), false, repositories[index]).ok());
    ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(repositories[index], index + 1, 0)).ok());
  }
  for (std::size_t index = 0; index < repositories.size(); ++index) {
    const RepositoryId& repository = repositories[index];
    EXPECT_EQ(LookupOne(*index_, 1, digest, repository).locator, std::to_string(index));
    EXPECT_EQ(ScanAll(*index_, repository, 10), std::vector<IndexEntry>{entry_of(index)});
    EXPECT_EQ(WaitFor(index_->Stats(repository))->entry_count, 1u);
    EXPECT_EQ(WaitFor(index_->Stats(repository))->epoch, index + 1);
  }
  ForgetOne(repositories[0], {digest, 0, ""}, 1);
  for (std::size_t index = 1; index < repositories.size(); ++index) {
    EXPECT_EQ(LookupOne(*index_, 1, digest, repositories[index]).verdict, Verdict::kDuplicate);
  }
}

TEST_P(IndexConformance, RefusesWhatIsOutOfItsLimits) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const Digest digest = DigestOf(kRepository, 1);
  LookupResult result;
  const std::span<const Digest> digests(&digest, 1);
  const std::span<LookupResult> results(&result, 1);
  for (const std::string& name :
       {std::string(), std::string(kMaxRepositoryNameBytes + 1, 'a'), std::string("a/b"),
        std::string("a b"), std::string("a\0b", 3), std::string("\xC3\xA4")}) {
    const RepositoryId repository{name, DigestAlgorithm::kBlake3};
    EXPECT_EQ(WaitFor(index_->Lookup(repository, 1, digests, results)).code(), invalid) << name;
    EXPECT_EQ(WaitFor(index_->Commit(repository, 1, {}, false)).code(), invalid) << name;
    EXPECT_EQ(WaitFor(index_->Forget(repository, {})).status().code(), invalid) << name;
    EXPECT_EQ(WaitFor(index_->AdvanceEpoch(repository, 1, 0)).status().code(), invalid) << name;
    EXPECT_EQ(WaitFor(index_->Scan(repository, std::nullopt, 1)).status().code(), invalid) << name;
    EXPECT_EQ(WaitFor(index_->Stats(repository)).status().code(), invalid) << name;
  }
  // As a peer's number may be. NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  const RepositoryId unknown{"photos", static_cast<DigestAlgorithm>(77)};
  EXPECT_EQ(WaitFor(index_->Lookup(unknown, 1, digests, results)).code(), invalid);
  EXPECT_EQ(WaitFor(index_->Lookup(kRepository, 1, digests, {})).code(), invalid);
  EXPECT_EQ(CommitOne(*index_, 1, EntryOf(1, "")).code(), invalid);
  EXPECT_EQ(CommitOne(*index_, 1, EntryOf(1, std::string(kMaxLocatorBytes + 1, 'x'))).code(),
            invalid);
  // A digest of 32 bytes where 16 are right.
  const RepositoryId small{"photos", DigestAlgorithm::kXxh3_128};
  EXPECT_EQ(WaitFor(index_->Lookup(small, 1, digests, results)).code(), invalid);
  EXPECT_EQ(CommitOne(*index_, 1, EntryOf(1, "a"), false, small).code(), invalid);
  EXPECT_EQ(WaitFor(index_->Scan(small, digest, 1)).status().code(), invalid);
  EXPECT_EQ(WaitFor(index_->ForgetOlder(small, 1, digest, 1)).status().code(), invalid);
  EXPECT_EQ(WaitFor(index_->ForgetOlder(kRepository, 1, std::nullopt, 0)).status().code(), invalid);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 0u);
}

}  // namespace kerf
