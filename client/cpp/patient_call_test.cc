#include "client/cpp/patient_call.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "client/cpp/call_cancellation.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace kerf::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{300'000};

// As a server says it; without a time to wait for 0.
grpc::Status Refused(const std::string& reason, milliseconds delay) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("kerf");
  details.add_details()->PackFrom(info);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(delay.count() / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int>(delay.count() % 1000) * 1'000'000);
  if (delay.count() > 0) details.add_details()->PackFrom(retry);
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "message", details.SerializeAsString()};
}

TEST(CallPatientlyTest, WaitsForItsTurn) {
  int count = 0;
  const auto began = std::chrono::steady_clock::now();
  const absl::Status status = CallPatiently(nullptr, kPatience, [&](grpc::ClientContext&) {
    return ++count < 4 ? Refused("QUOTA_EXCEEDED", milliseconds(20)) : grpc::Status();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(count, 4);
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(60));
}

// As a repository does whose calls have all the rooms that it may have.
TEST(CallPatientlyTest, WaitsWhereThereIsNoRoom) {
  for (const char* reason : {"TOO_MANY_CALLS", "MEMORY_EXHAUSTED"}) {
    int count = 0;
    const auto began = std::chrono::steady_clock::now();
    const absl::Status status = CallPatiently(nullptr, kPatience, [&](grpc::ClientContext&) {
      return ++count < 3 ? Refused(reason, milliseconds(600)) : grpc::Status();
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(count, 3);
    EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(1'200));
  }
}

// Whoever is refused by many servers, or beside many others, does not come again all at once.
TEST(CallPatientlyTest, WaitsLongerThanItIsToldWhereThereIsNoRoom) {
  int count = 0;
  const auto began = std::chrono::steady_clock::now();
  const absl::Status status = CallPatiently(nullptr, kPatience, [&](grpc::ClientContext&) {
    return ++count < 3 ? Refused("TOO_MANY_CALLS", milliseconds(1)) : grpc::Status();
  });
  EXPECT_TRUE(status.ok()) << status;
  // Halves of 0.5 s and 1 s at least.
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(750));
}

TEST(CallPatientlyTest, NotWhereTimeMendsNothing) {
  for (const grpc::Status& answer :
       {Refused("QUOTA_EXCEEDED", milliseconds(0)), Refused("INDEX_UNAVAILABLE", milliseconds(20)),
        Refused("NOT_YOURS", milliseconds(20)), Refused("INDEX_FULL", milliseconds(20)),
        grpc::Status(grpc::StatusCode::UNAVAILABLE, ""),
        grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "")}) {
    int count = 0;
    const absl::Status status = CallPatiently(nullptr, kPatience, [&](grpc::ClientContext&) {
      ++count;
      return answer;
    });
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(count, 1) << status;
  }
}

// What was asked for with --retry-for: no wait begins that would end behind it.
TEST(CallPatientlyTest, WaitsNoLongerThanItWasTold) {
  int count = 0;
  const auto began = std::chrono::steady_clock::now();
  const absl::Status status = CallPatiently(nullptr, milliseconds(100), [&](grpc::ClientContext&) {
    ++count;
    return Refused("QUOTA_EXCEEDED", milliseconds(30));
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GT(count, 1);
  EXPECT_LE(count, 4);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

// Of `--retry-for 0` nothing is tried again.
TEST(CallPatientlyTest, WithoutPatienceItAsksOnce) {
  for (const char* reason : {"QUOTA_EXCEEDED", "TOO_MANY_CALLS"}) {
    int count = 0;
    const absl::Status status = CallPatiently(nullptr, milliseconds(0), [&](grpc::ClientContext&) {
      ++count;
      return Refused(reason, milliseconds(20));
    });
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(count, 1);
  }
}

TEST(CallPatientlyTest, AWaitIsCancelled) {
  for (const char* reason : {"QUOTA_EXCEEDED", "TOO_MANY_CALLS"}) {
    CallCancellation cancellation;
    int count = 0;
    std::thread canceller;
    const auto began = std::chrono::steady_clock::now();
    const absl::Status status = CallPatiently(&cancellation, kPatience, [&](grpc::ClientContext&) {
      if (++count == 1) canceller = std::thread([&] { cancellation.Cancel(); });
      return Refused(reason, milliseconds(60'000));
    });
    canceller.join();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(count, 1);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
  }
}

}  // namespace
}  // namespace kerf::client
