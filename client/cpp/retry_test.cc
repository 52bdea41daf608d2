#include "client/cpp/retry.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace kerf::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// As a server sends it.
absl::Status Received(grpc::StatusCode code, const std::string& reason, milliseconds delay = {},
                      const std::string& domain = "kerf") {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(domain);
  details.add_details()->PackFrom(info);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(delay.count() / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int>(delay.count() % 1000) * 1'000'000);
  details.add_details()->PackFrom(retry);
  return FromGrpc({code, "message", details.SerializeAsString()});
}

TEST(LossOfTest, ReasonsAreTakenFromTheList) {
  using enum grpc::StatusCode;
  EXPECT_EQ(LossOf(Received(UNAVAILABLE, "DRAINING")), Loss::kRetry);
  EXPECT_EQ(LossOf(Received(UNAVAILABLE, "WORKER_UNREACHABLE")), Loss::kRetry);
  EXPECT_EQ(LossOf(Received(UNAVAILABLE, "AUDIT_UNAVAILABLE")), Loss::kRetry);
  EXPECT_TRUE(IsWorkersFault(Received(UNAVAILABLE, "AUDIT_UNAVAILABLE")));
  EXPECT_EQ(LossOf(Received(RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS")), Loss::kRetry);
  EXPECT_EQ(LossOf(Received(DEADLINE_EXCEEDED, "IDLE_TIMEOUT")), Loss::kRetry);
  EXPECT_EQ(LossOf(Received(RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", seconds(1))), Loss::kRetry);
  // Time gives nothing back of it.
  EXPECT_EQ(LossOf(Received(RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")), Loss::kFinal);
  EXPECT_EQ(LossOf(Received(INTERNAL, "INTERNAL")), Loss::kRetryOnce);
  // Whatever its code says.
  EXPECT_EQ(LossOf(Received(UNAVAILABLE, "NOBODY_KNOWS")), Loss::kFinal);
  EXPECT_EQ(LossOf(Received(DATA_LOSS, "CONTENT_MISMATCH")), Loss::kRetryOnce);
  EXPECT_EQ(LossOf(Received(RESOURCE_EXHAUSTED, "TOO_MANY_UNCOMMITTED_FILES")), Loss::kRetry);
  EXPECT_EQ(LossOf(Received(RESOURCE_EXHAUSTED, "INDEX_FULL")), Loss::kFinal);
  EXPECT_EQ(LossOf(Received(INVALID_ARGUMENT, "BAD_FIELD")), Loss::kFinal);
  EXPECT_EQ(ReasonOfLoss(Received(UNAVAILABLE, "DRAINING", {}, "elsewhere")), "");
}

// PRO-61 names those that are retried, and the table behind it all that there are.
TEST(LossOfTest, ThePageNamesWhatIsRetried) {
  std::ifstream file("docs/spec/protocol.md");
  std::set<std::string> retried;
  std::set<std::string> all;
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t once = line.find(", and INTERNAL once");
    if (line.starts_with("| PRO-61 |") && once != std::string::npos) {
      const std::string list = line.substr(0, once);
      const std::vector<std::string> words = absl::StrSplit(list, absl::ByAnyChar(" ,()"));
      for (const std::string& word : words) {
        // Not the rule's own number, nor RetryInfo.
        if (word.size() > 7 &&
            word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == std::string::npos) {
          retried.insert(word);
        }
      }
    }
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    const bool is_reason =
        cells.size() == 3 && cells[0].starts_with("| ") &&
        cells[0].find_first_not_of("| ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == std::string::npos;
    if (is_reason) all.insert(cells[0].substr(2));
  }
  EXPECT_GT(all.size(), 30u);
  EXPECT_GE(retried.size(), 13u);
  for (const std::string& reason : all) {
    // What the page leaves to clients that do something about it, as this one does.
    const bool is_own = reason.starts_with("TOO_MANY_UNCOMMITTED_");
    const bool is_once = reason == "INTERNAL" || reason == "CONTENT_MISMATCH";
    const Loss loss = is_once                              ? Loss::kRetryOnce
                      : is_own || retried.contains(reason) ? Loss::kRetry
                                                           : Loss::kFinal;
    EXPECT_EQ(LossOf(Received(grpc::StatusCode::UNAVAILABLE, reason, seconds(1))), loss) << reason;
  }
  for (const std::string& reason : retried) EXPECT_TRUE(all.contains(reason)) << reason;
}

TEST(LossOfTest, WhatMayBeMadeTwiceIsTriedAgainBehindItsDeadline) {
  EXPECT_EQ(LossOfRepeatable(absl::DeadlineExceededError("")), Loss::kRetry);
  EXPECT_EQ(LossOfRepeatable(Received(grpc::StatusCode::DEADLINE_EXCEEDED, "SOMETHING_NEW")),
            Loss::kFinal);
  EXPECT_EQ(LossOfRepeatable(absl::UnavailableError("")), Loss::kRetry);
  EXPECT_EQ(LossOfRepeatable(absl::AbortedError("")), Loss::kFinal);
  EXPECT_EQ(LossOfRepeatable(Received(grpc::StatusCode::INTERNAL, "INTERNAL")), Loss::kRetryOnce);
}

TEST(LossOfTest, WhoHasNoRoomNowMayHaveSomeLater) {
  for (const char* reason : {"QUOTA_EXCEEDED", "TOO_MANY_CALLS", "MEMORY_EXHAUSTED"}) {
    EXPECT_TRUE(HasNoRoomNow(Received(grpc::StatusCode::RESOURCE_EXHAUSTED, reason, seconds(1))));
  }
  EXPECT_FALSE(HasNoRoomNow(Received(grpc::StatusCode::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")));
  EXPECT_FALSE(
      HasNoRoomNow(Received(grpc::StatusCode::RESOURCE_EXHAUSTED, "INDEX_FULL", seconds(1))));
  EXPECT_FALSE(HasNoRoomNow(Received(grpc::StatusCode::UNAVAILABLE, "DRAINING", seconds(1))));
  EXPECT_FALSE(HasNoRoomNow(absl::ResourceExhaustedError("gRPC's own")));
}

TEST(LossOfTest, WhoIsAwayNowMayBeBackSoon) {
  for (const char* reason : {"DRAINING", "NO_WORKER", "WORKER_UNREACHABLE"}) {
    EXPECT_TRUE(IsAwayNow(Received(grpc::StatusCode::UNAVAILABLE, reason)));
  }
  EXPECT_FALSE(IsAwayNow(Received(grpc::StatusCode::UNAVAILABLE, "INDEX_UNAVAILABLE")));
  EXPECT_FALSE(IsAwayNow(absl::UnavailableError("Socket closed")));
}

TEST(LossOfTest, TlsIsTriedAgainForAShortTimeAndNoServerSaysSo) {
  const absl::Status trouble = TlsTrouble("wrong");
  EXPECT_TRUE(IsTlsTrouble(trouble));
  EXPECT_TRUE(absl::IsUnauthenticated(trouble));
  EXPECT_EQ(LossOf(trouble), Loss::kRetryBriefly);
  EXPECT_FALSE(IsTlsTrouble(absl::UnauthenticatedError("wrong")));
  EXPECT_EQ(LossOf(absl::UnauthenticatedError("wrong")), Loss::kFinal);
  RetryPlan plan({.time = seconds(60), .brief_time = seconds(2)}, /*seed=*/1);
  const RetryPlan::TimePoint start;
  EXPECT_TRUE(plan.WaitAfter(Loss::kRetryBriefly, {}, start).has_value());
  EXPECT_TRUE(plan.WaitAfter(Loss::kRetryBriefly, {}, start + seconds(1)).has_value());
  EXPECT_FALSE(plan.WaitAfter(Loss::kRetryBriefly, {}, start + seconds(2)).has_value());
  EXPECT_TRUE(plan.WaitAfter(Loss::kRetry, {}, start + seconds(2)).has_value());
  RetryPlan impatient({.time = milliseconds(0)}, /*seed=*/1);
  EXPECT_FALSE(impatient.WaitAfter(Loss::kRetryBriefly, {}, start).has_value());
}

TEST(LossOfTest, WithoutAReasonTheConnectionMustHaveBroken) {
  EXPECT_EQ(LossOf(absl::UnavailableError("Socket closed")), Loss::kRetry);
  EXPECT_EQ(LossOf(absl::CancelledError("")), Loss::kRetry);
  EXPECT_EQ(LossOf(absl::InternalError("Received RST_STREAM with error code 2")), Loss::kRetry);
  EXPECT_EQ(LossOf(absl::UnknownError("Stream removed")), Loss::kRetry);
  // Other languages have other words for the same.
  EXPECT_EQ(LossOf(absl::InternalError("stream terminated by RST_STREAM")), Loss::kRetry);
  EXPECT_EQ(LossOf(absl::UnknownError("")), Loss::kRetry);
  EXPECT_EQ(LossOf(FromGrpc({grpc::StatusCode::INTERNAL, "", "no details"})), Loss::kRetry);
  // What this side gave up for what was said is no broken connection, and no server says so.
  EXPECT_EQ(LossOf(WrongAnswer("an answer that is none")), Loss::kFinal);
  google::rpc::Status claimed;
  claimed.add_details()->set_type_url("kerf/wrong-answer");
  EXPECT_EQ(LossOf(FromGrpc({grpc::StatusCode::INTERNAL, "", claimed.SerializeAsString()})),
            Loss::kRetry);
  for (const absl::StatusCode code :
       {absl::StatusCode::kOk, absl::StatusCode::kInvalidArgument,
        absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kNotFound,
        absl::StatusCode::kPermissionDenied, absl::StatusCode::kResourceExhausted,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kAborted,
        absl::StatusCode::kOutOfRange, absl::StatusCode::kUnimplemented,
        absl::StatusCode::kDataLoss, absl::StatusCode::kUnauthenticated}) {
    EXPECT_EQ(LossOf({code, "message"}), Loss::kFinal) << static_cast<int>(code);
  }
}

TEST(AskedWaitTest, IsWhatTheServerSaid) {
  EXPECT_EQ(AskedWaitOf(Received(grpc::UNAVAILABLE, "DRAINING", milliseconds(1500))),
            milliseconds(1500));
  EXPECT_EQ(AskedWaitOf(absl::UnavailableError("")), milliseconds(0));
  // A hostile one cannot stop a backup.
  EXPECT_EQ(AskedWaitOf(Received(grpc::UNAVAILABLE, "DRAINING", seconds(1'000'000))), seconds(60));
  EXPECT_EQ(AskedWaitOf(Received(grpc::UNAVAILABLE, "DRAINING", seconds(-5))), seconds(0));
  EXPECT_EQ(AskedWaitOf(FromGrpc({grpc::UNAVAILABLE, "", "no details"})), milliseconds(0));
}

class RetryPlanTest : public testing::Test {
 protected:
  // What the plan says at its own time, which then passes.
  std::optional<milliseconds> Next(RetryPlan& plan, Loss loss = Loss::kRetry,
                                   milliseconds asked = {}) {
    const auto wait = plan.WaitAfter(loss, asked, now_);
    if (wait.has_value()) now_ += *wait;
    return wait;
  }

  RetryLimits limits_;
  const std::uint64_t seed_ = TestSeed();
  RetryPlan::TimePoint now_;
};

TEST_F(RetryPlanTest, WaitsGrowAndDiffer) {
  std::set<std::int64_t> firsts;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RetryPlan plan(limits_, seed_ + seed);
    milliseconds longest = limits_.first_wait;
    firsts.insert(plan.WaitAfter(Loss::kRetry, {}, now_)->count());
    for (int count = 0; count < 8; ++count) {
      longest = std::min(2 * longest, limits_.longest_wait);
      const milliseconds wait = *plan.WaitAfter(Loss::kRetry, {}, now_);
      EXPECT_LE(wait, longest);
      EXPECT_GE(2 * wait, longest);
    }
  }
  EXPECT_GT(firsts.size(), 20u) << "they come all at once";
  EXPECT_LE(*firsts.rbegin(), limits_.first_wait.count());
  EXPECT_GE(2 * *firsts.begin(), limits_.first_wait.count());
}

TEST_F(RetryPlanTest, EndsWhenTheTimeIsOverAndNotBefore) {
  RetryPlan plan(limits_, seed_);
  const RetryPlan::TimePoint begin = now_;
  while (Next(plan).has_value()) ASSERT_LE(now_ - begin, limits_.time);
  EXPECT_EQ(now_ - begin, limits_.time);
  EXPECT_EQ(plan.TriedFor(now_), limits_.time);
  EXPECT_GT(plan.tries(), 10);
  EXPECT_LT(plan.tries(), 60);
}

TEST_F(RetryPlanTest, EndsAfterSoManyTries) {
  limits_.tries = 7;
  RetryPlan plan(limits_, seed_);
  for (int count = 0; count < 7; ++count) EXPECT_TRUE(Next(plan).has_value());
  EXPECT_FALSE(Next(plan).has_value());
  EXPECT_EQ(plan.tries(), 7);
}

TEST_F(RetryPlanTest, ProgressBeginsAnew) {
  limits_.tries = 3;
  RetryPlan plan(limits_, seed_);
  for (int round = 0; round < 100; ++round) {
    for (int count = 0; count < 3; ++count) ASSERT_TRUE(Next(plan).has_value());
    plan.Progress();
    EXPECT_EQ(plan.TriedFor(now_), milliseconds(0));
    EXPECT_LE(*plan.WaitAfter(Loss::kRetry, {}, now_), limits_.first_wait);
    plan.Progress();
  }
}

// CLI-14.
TEST_F(RetryPlanTest, OnceIsOnceForEachFileWhateverHasBeenGot) {
  RetryPlan plan(limits_, seed_);
  for (int file = 0; file < 3; ++file) {
    EXPECT_TRUE(Next(plan, Loss::kRetryOnce).has_value());
    plan.Progress();
    EXPECT_FALSE(Next(plan, Loss::kRetryOnce).has_value());
    EXPECT_TRUE(Next(plan, Loss::kRetry).has_value());
    plan.BeginFile();
  }
}

TEST_F(RetryPlanTest, WhoGaveUpIsKnown) {
  const RetryPlan plan(limits_, seed_);
  const absl::Status full = absl::ResourceExhaustedError("no room");
  EXPECT_FALSE(HasGivenUp(full));
  EXPECT_TRUE(HasGivenUp(GaveUp(plan, {}, full, now_)));
}

// Who gives up has nobody else to ask why.
TEST_F(RetryPlanTest, WhoGaveUpSaysWhatTheLastServerSaid) {
  const RetryPlan plan(limits_, seed_);
  const absl::Status loss = WithRequestId(
      Received(grpc::StatusCode::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", seconds(7)), "one call");
  const absl::Status end = GaveUp(plan, {}, loss, now_);
  EXPECT_TRUE(HasGivenUp(end));
  EXPECT_EQ(ReasonOfCall(end), "QUOTA_EXCEEDED");
  EXPECT_EQ(RequestIdOf(end), "one call");
  // Of a connection that broke nobody has said anything.
  EXPECT_EQ(ReasonOfCall(GaveUp(plan, {}, absl::UnavailableError("gone"), now_)), "");
}

TEST_F(RetryPlanTest, WhatIsSaidInOtherWordsHasTheReasonStill) {
  const absl::Status loss =
      WithRequestId(Received(grpc::StatusCode::UNAVAILABLE, "DRAINING"), "its id");
  EXPECT_EQ(ReasonOfCall(loss), "DRAINING");
  const absl::Status other = OfCall(absl::UnavailableError("in other words"), loss);
  EXPECT_EQ(ReasonOfCall(other), "DRAINING");
  EXPECT_EQ(RequestIdOf(other), "its id");
  EXPECT_EQ(ReasonOfLoss(other), "") << "no server has said it";
  EXPECT_EQ(ReasonOfCall(OfCall(absl::UnavailableError("again"), other)), "DRAINING");
  EXPECT_EQ(ReasonOfCall(OfCall(Received(grpc::StatusCode::UNAVAILABLE, "NO_WORKER"), loss)),
            "NO_WORKER");
  EXPECT_TRUE(OfCall(absl::OkStatus(), loss).ok());
  EXPECT_EQ(ReasonOfCall(absl::UnavailableError("no call")), "");
  const RetryPlan plan(limits_, seed_);
  EXPECT_EQ(ReasonOfCall(GaveUp(plan, {}, loss, now_)), "DRAINING");
}

TEST_F(RetryPlanTest, TheServersWordComesFirst) {
  RetryPlan plan(limits_, seed_);
  EXPECT_EQ(*Next(plan, Loss::kRetry, seconds(50)), seconds(50));
}

TEST_F(RetryPlanTest, WhatIsFinalOrNotWantedIsNotTried) {
  RetryPlan plan(limits_, seed_);
  EXPECT_FALSE(Next(plan, Loss::kFinal).has_value());
  EXPECT_TRUE(Next(plan, Loss::kRetryOnce).has_value());
  EXPECT_FALSE(Next(plan, Loss::kRetryOnce).has_value());
  limits_.time = {};
  RetryPlan never(limits_, seed_);
  EXPECT_FALSE(Next(never).has_value());
}

}  // namespace
}  // namespace kerf::client
