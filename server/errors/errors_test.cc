#include "server/errors/errors.h"

#include <gtest/gtest.h>

namespace kerf {
namespace {

TEST(FromIndexStatusTest, GoesByTheCodeWhereThereIsNoReason) {
  EXPECT_TRUE(FromIndexStatus(absl::OkStatus()).ok());
  EXPECT_EQ(ReasonNameOf(FromIndexStatus(absl::UnavailableError(""))), "INDEX_UNAVAILABLE");
  EXPECT_EQ(ReasonNameOf(FromIndexStatus(absl::DeadlineExceededError(""))), "INDEX_UNAVAILABLE");
  EXPECT_EQ(ReasonNameOf(FromIndexStatus(absl::ResourceExhaustedError(""))), "INDEX_FULL");
  EXPECT_EQ(ReasonNameOf(FromIndexStatus(absl::InvalidArgumentError(""))), "BAD_FIELD");
  EXPECT_EQ(ReasonNameOf(FromIndexStatus(absl::DataLossError(""))), "INTERNAL");
}

TEST(FromIndexStatusTest, AReasonStaysAsItIs) {
  const absl::Status behind = MakeError(Reason::kEpochBehind, "the index: it is behind");
  EXPECT_EQ(FromIndexStatus(behind), behind);
}

// One that this server cannot read has no epoch to read again: another server may know it.
TEST(FromIndexStatusTest, WhatALaterKerfdHasMadeIsNoEpochThatIsBehind) {
  const absl::Status status =
      FromIndexStatus(absl::FailedPreconditionError("the layout is of version 9"));
  EXPECT_EQ(ReasonNameOf(status), "INDEX_UNAVAILABLE");
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(), "the index: the layout is of version 9");
}

}  // namespace
}  // namespace kerf
