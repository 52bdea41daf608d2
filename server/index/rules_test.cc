#include "server/index/rules.h"

#include <gtest/gtest.h>

#include "server/errors/errors.h"

namespace kerf::index_rules {
namespace {

TEST(IndexRules, VerdictNeedsTheEntrysOrTheRepositorysEpoch) {
  EXPECT_EQ(VerdictOf(5, 0, 5), Verdict::kDuplicate);
  EXPECT_EQ(VerdictOf(6, 0, 5), Verdict::kDuplicate);
  EXPECT_EQ(VerdictOf(4, 0, 5), Verdict::kUnverified);
  EXPECT_EQ(VerdictOf(4, 5, 5), Verdict::kDuplicate);
  EXPECT_EQ(VerdictOf(4, 4, 5), Verdict::kUnverified);
  EXPECT_EQ(VerdictOf(0, 6, 5), Verdict::kDuplicate);
}

TEST(IndexRules, ANewDigestIsWrittenWithTheSessionsEpoch) {
  EXPECT_EQ(EpochToWrite(std::nullopt, 0, 5, false), 5u);
  EXPECT_EQ(EpochToWrite(std::nullopt, 5, 5, true), 5u);
}

TEST(IndexRules, TheFirstCommitWinsUnlessItIsUnverified) {
  EXPECT_EQ(EpochToWrite(5, 0, 5, false), std::nullopt);
  EXPECT_EQ(EpochToWrite(6, 0, 5, false), std::nullopt);
  EXPECT_EQ(EpochToWrite(4, 5, 5, false), std::nullopt);
  EXPECT_EQ(EpochToWrite(4, 4, 5, false), 5u);
  EXPECT_EQ(EpochToWrite(0, 0, 1, false), 1u);
}

TEST(IndexRules, ReplaceWritesAndNeverLowersTheEpoch) {
  EXPECT_EQ(EpochToWrite(5, 0, 5, true), 5u);
  EXPECT_EQ(EpochToWrite(9, 0, 5, true), 9u);
  EXPECT_EQ(EpochToWrite(4, 9, 9, true), 9u);
  EXPECT_EQ(EpochToWrite(4, 0, 5, true), 5u);
}

TEST(IndexRules, AnEpochRisesByStepsThatAStoreCanMake) {
  EXPECT_TRUE(CheckAdvance(0, 1).ok());
  EXPECT_TRUE(CheckAdvance(7, 7).ok());
  EXPECT_TRUE(CheckAdvance(7, 7 + kMaxEpochStep).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckAdvance(7, 6)));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckAdvance(7, 8 + kMaxEpochStep)));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckAdvance(0, UINT64_MAX)));
  EXPECT_TRUE(CheckAdvance(kMaxEpoch - 1, kMaxEpoch).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckAdvance(kMaxEpoch, kMaxEpoch + 1)));
}

// As a new one is, and one that was lost.
TEST(IndexRules, AnIndexAtItsBeginningCatchesUpWithAnyStoreAtOnce) {
  EXPECT_TRUE(CheckAdvance(0, kMaxFirstEpoch).ok());
  EXPECT_TRUE(CheckNotAhead(kMaxFirstEpoch, 0).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckAdvance(0, kMaxFirstEpoch + 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckAdvance(1, kMaxFirstEpoch)));
}

TEST(IndexRules, NothingOfAClosedRepositoryIsBelieved) {
  EXPECT_EQ(VerdictOf(9, kClosedEpoch, 1), Verdict::kUnverified);
  EXPECT_EQ(VerdictOf(kMaxEpoch, kClosedEpoch, 1), Verdict::kUnverified);
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckNotClosed(kClosedEpoch)));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckAdvance(kClosedEpoch, 5)));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckAdvance(kClosedEpoch, kClosedEpoch)));
  EXPECT_TRUE(CheckNotClosed(kMaxEpoch).ok());
  // Entries can still be looked up and forgotten.
  EXPECT_TRUE(CheckNotAhead(5, kClosedEpoch).ok());
}

TEST(IndexRules, AClosedRepositoryHasNoEpochToTell) {
  EXPECT_EQ(EpochToTell(kClosedEpoch), 0u);
  EXPECT_EQ(EpochToTell(kMaxEpoch), kMaxEpoch);
  EXPECT_EQ(EpochToTell(0), 0u);
}

TEST(IndexRules, AnEpochThatIsPassedIsSaidWithItsReason) {
  EXPECT_EQ(ReasonNameOf(CheckAdvance(5, 4)), "EPOCH_BEHIND");
  // Without that `kerf gc` refuses a store that came back from a copy.
  EXPECT_NE(CheckAdvance(5, 4).message().find("kerf repair --accept-set-back --apply"),
            std::string::npos);
  EXPECT_EQ(ReasonNameOf(CheckNotClosed(kClosedEpoch)), "EPOCH_BEHIND");
}

TEST(IndexRules, AResetLeavesNoLaterEpoch) {
  EXPECT_EQ(EpochAfterReset(4, 5), 4u);
  EXPECT_EQ(EpochAfterReset(5, 5), 5u);
  EXPECT_EQ(EpochAfterReset(kMaxEpoch, 5), 5u);
  EXPECT_TRUE(CheckReset(0).ok());
  EXPECT_TRUE(CheckReset(kMaxEpoch).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckReset(kClosedEpoch)));
}

TEST(IndexRules, ForgetLeavesWhatHasMoved) {
  EXPECT_TRUE(IsForgotten("a", "a"));
  EXPECT_TRUE(IsForgotten("a", ""));
  EXPECT_FALSE(IsForgotten("a", "b"));
  EXPECT_FALSE(IsForgotten("a", "ab"));
}

}  // namespace
}  // namespace kerf::index_rules
