#include "server/quota/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "google/rpc/error_details.pb.h"
#include "server/errors/errors.h"
#include "server/quota/testing/rules_gate.h"

namespace kerf {
namespace {

using ::testing::HasSubstr;

constexpr char kRules[] = R"([[identity]]
name = "kerf://a"
max_streams = 2
max_bytes_per_second = 100_000
max_calls_per_second = 4
[[identity]]
name = "kerf://b"
[[repository]]
name = "tight"
max_streams = 2
max_bytes_per_second = 200_000
max_calls_per_second = 2
max_entries = 3
)";

class QuotasTest : public ::testing::Test {
 protected:
  static access::Identity Of(const std::string& name) {
    return {.proof = access::Proof::kCertificate, .name = name};
  }
  std::chrono::milliseconds DelayOf(const absl::Status& status) {
    google::rpc::RetryInfo info;
    const auto payload = status.GetPayload("type.googleapis.com/google.rpc.RetryInfo");
    EXPECT_TRUE(payload.has_value() && info.ParseFromString(std::string(*payload)));
    return std::chrono::seconds(info.retry_delay().seconds()) +
           std::chrono::milliseconds(info.retry_delay().nanos() / 1'000'000);
  }
  // Whose quota it is and what that is, for programs.
  static google::rpc::QuotaFailure::Violation ViolationOf(const absl::Status& status) {
    google::rpc::QuotaFailure failure;
    const auto payload = status.GetPayload("type.googleapis.com/google.rpc.QuotaFailure");
    EXPECT_TRUE(payload.has_value() && failure.ParseFromString(std::string(*payload)));
    EXPECT_EQ(failure.violations_size(), 1);
    return failure.violations_size() == 1 ? failure.violations(0)
                                          : google::rpc::QuotaFailure::Violation();
  }
  std::string Metrics() {
    metrics::Page page;
    quotas_.AddMetrics(page);
    return page.text();
  }

  TimePoint now_{std::chrono::hours(1)};
  const Clock clock_ = [this] { return now_; };
  const RulesGate rules_{kRules};
  Quotas quotas_{rules_.gate(), &clock_};
  const access::Identity a_ = Of("kerf://a");
  const access::Identity b_ = Of("kerf://b");
};

TEST_F(QuotasTest, StreamsByIdentity) {
  std::vector<Places::Hold> held;
  held.push_back(*quotas_.EnterStream(a_, 16));
  held.push_back(*quotas_.EnterStream(a_, 16));
  const absl::Status status = quotas_.EnterStream(a_, 16).status();
  EXPECT_EQ(ReasonNameOf(status), "QUOTA_EXCEEDED");
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("kerf://a"));
  EXPECT_EQ(DelayOf(status), std::chrono::seconds(5));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const google::rpc::QuotaFailure::Violation violation = ViolationOf(status);
  EXPECT_THAT(violation.subject(), HasSubstr("kerf://a"));
  EXPECT_EQ(MessageOf(status),
            Cat("the quota of ", violation.subject(), " is used up: ", violation.description()));
  // Nothing is said of b: three quarters of all, and one at least.
  for (int count = 0; count < 12; ++count) held.push_back(*quotas_.EnterStream(b_, 16));
  EXPECT_FALSE(quotas_.EnterStream(b_, 16).ok());
  EXPECT_TRUE(quotas_.EnterStream(Of("kerf://c"), 1).ok());
  EXPECT_THAT(Metrics(), HasSubstr("kerf_quota_exceeded_total{quota=\"streams\"} 2\n"));
}

TEST_F(QuotasTest, StreamsByRepository) {
  auto held = quotas_.EnterStreamOf("tight");
  const auto other = quotas_.EnterStreamOf("tight");
  ASSERT_TRUE(held.ok() && other.ok());
  const absl::Status status = quotas_.EnterStreamOf("tight").status();
  EXPECT_EQ(ReasonNameOf(status), "QUOTA_EXCEEDED");
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("repository 'tight'"));
  for (int count = 0; count < 100; ++count) EXPECT_TRUE(quotas_.EnterStreamOf("wide").ok());
  held->Reset();
  EXPECT_TRUE(quotas_.EnterStreamOf("tight").ok());
}

TEST_F(QuotasTest, CallsAtOnce) {
  std::vector<Places::Hold> held;
  held.reserve(6);
  for (int count = 0; count < 6; ++count) held.push_back(*quotas_.EnterCall(b_, 8));
  EXPECT_EQ(ReasonNameOf(quotas_.EnterCall(b_, 8).status()), "QUOTA_EXCEEDED");
  EXPECT_TRUE(quotas_.EnterCall(a_, 8).ok());
  held.pop_back();
  EXPECT_TRUE(quotas_.EnterCall(b_, 8).ok());
}

TEST_F(QuotasTest, CallsASecond) {
  const auto call = [&] { return quotas_.EnterCall(a_, 8).status(); };
  for (int count = 0; count < 4; ++count) EXPECT_TRUE(call().ok());
  const absl::Status status = call();
  EXPECT_EQ(ReasonNameOf(status), "QUOTA_EXCEEDED");
  EXPECT_EQ(DelayOf(status), std::chrono::seconds(1));
  // One that is refused does not count.
  for (int count = 0; count < 100; ++count) EXPECT_FALSE(call().ok());
  now_ += std::chrono::milliseconds(250);
  EXPECT_TRUE(call().ok());
  EXPECT_FALSE(call().ok());
  // And when it says that it is time, it is.
  now_ += DelayOf(status);
  EXPECT_TRUE(call().ok());
}

TEST_F(QuotasTest, CallsASecondOfARepository) {
  EXPECT_TRUE(quotas_.CountCallOn("tight").ok());
  EXPECT_TRUE(quotas_.CountCallOn("tight").ok());
  const absl::Status status = quotas_.CountCallOn("tight");
  EXPECT_EQ(ReasonNameOf(status), "QUOTA_EXCEEDED");
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("repository 'tight'"));
  for (int count = 0; count < 100; ++count) EXPECT_TRUE(quotas_.CountCallOn("wide").ok());
}

TEST_F(QuotasTest, BytesOfBothOrOfNone) {
  ASSERT_TRUE(quotas_.TryRead(a_, "", 100'000));
  EXPECT_FALSE(quotas_.TryRead(a_, "", 1));
  EXPECT_TRUE(quotas_.TryRead(b_, "", 1'000'000'000));
  // The repository's is full: that costs the identity nothing.
  ASSERT_TRUE(quotas_.TryRead(b_, "tight", 200'000));
  now_ += std::chrono::milliseconds(500);
  ASSERT_TRUE(quotas_.TryRead(a_, "tight", 150'000));
  now_ += std::chrono::seconds(1);
  // a has used 100,000 of 100,000, the repository 50,000 of 200,000.
  EXPECT_FALSE(quotas_.TryRead(a_, "tight", 1));
  quotas_.Correct(b_, "tight", 150'000);
  now_ += std::chrono::microseconds(1);
  EXPECT_TRUE(quotas_.TryRead(a_, "", 0));
  EXPECT_TRUE(quotas_.TryRead(b_, "tight", 100));
  for (int count = 0; count < 100; ++count) EXPECT_FALSE(quotas_.TryRead(a_, "tight", 90'000));
  EXPECT_TRUE(quotas_.TryRead(a_, "", 0));
}

// Of whom nobody asks who he is: no --access, no quotas.
TEST_F(QuotasTest, WithoutAccessThereAreNone) {
  const access::Gate open(nullptr);
  Quotas quotas(&open, &clock_);
  const access::Identity nobody;
  std::vector<Places::Hold> held;
  for (int count = 0; count < 100; ++count) {
    held.push_back(*quotas.EnterStream(nobody, 1));
    held.push_back(*quotas.EnterStreamOf("tight"));
    held.push_back(*quotas.EnterCall(nobody, 1));
    EXPECT_TRUE(quotas.CountCallOn("tight").ok());
    EXPECT_TRUE(quotas.TryRead(nobody, "tight", 1'000'000'000));
  }
  EXPECT_FALSE(quotas.MaxEntriesOf("tight").has_value());
  EXPECT_EQ(quotas_.MaxEntriesOf("tight"), 3u);
  metrics::Page page;
  quotas.AddMetrics(page);
  EXPECT_EQ(page.text(), "");
}

}  // namespace
}  // namespace kerf
