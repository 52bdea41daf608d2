#include "client/cpp/patient_call.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/call_cancellation.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/retry.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace kerf::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{300'000};

// As a server says it; without a time to wait for 0.
grpc::Status Refused(const std::string& reason, milliseconds delay,
                     grpc::StatusCode code = grpc::StatusCode::RESOURCE_EXHAUSTED,
                     const std::string& worker = "") {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("kerf");
  if (!worker.empty()) (*info.mutable_metadata())["worker"] = worker;
  details.add_details()->PackFrom(info);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(delay.count() / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int>(delay.count() % 1000) * 1'000'000);
  if (delay.count() > 0) details.add_details()->PackFrom(retry);
  return {code, "message", details.SerializeAsString()};
}
grpc::Status Away(const std::string& reason, const std::string& worker = "") {
  return Refused(reason, milliseconds(1), grpc::StatusCode::UNAVAILABLE, worker);
}
// As gRPC says it where a connection is lost, or none can be made.
grpc::Status Broken(grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE) {
  return {code, "Socket closed"};
}

TEST(PatientCallsTest, WaitsForItsTurn) {
  int count = 0;
  const auto began = std::chrono::steady_clock::now();
  const absl::Status status = PatientCalls({.patience = kPatience}).Call([&](grpc::ClientContext&) {
    return ++count < 4 ? Refused("QUOTA_EXCEEDED", milliseconds(20)) : grpc::Status();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(count, 4);
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(60));
}

// At an address that is mistyped nobody comes by waiting; at that of a server which the caller has
// started somebody does.
TEST(PatientCallsTest, WaitsForAServerThatIsKnownToBeThere) {
  for (const bool is_met : {false, true}) {
    int count = 0;
    const CallOptions options{.patience = kPatience, .is_met = is_met};
    const absl::Status status = PatientCalls(options).Call(
        [&](grpc::ClientContext&) { return ++count < 2 ? Broken() : grpc::Status(); });
    EXPECT_EQ(status.ok(), is_met) << status;
    EXPECT_EQ(count, is_met ? 2 : 1);
  }
}

// As where a server that the caller has started was lost too often to be started again.
TEST(PatientCallsTest, WaitsForNoServerThatIsKnownToBeGone) {
  int count = 0;
  const CallOptions options{
      .patience = kPatience, .is_met = true, .is_gone = [&count] { return count >= 2; }};
  const absl::Status status =
      PatientCalls(options).Call([&](grpc::ClientContext&) { return ++count, Broken(); });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(count, 2);
}

// Nor until a wait that has begun is over.
TEST(PatientCallsTest, AWaitForAServerEndsOnceItIsGone) {
  bool is_gone = false;
  CallOptions options{.patience = kPatience, .is_met = true, .is_gone = [&] { return is_gone; }};
  options.on_wait = [&](const CallWait&) { is_gone = true; };
  int count = 0;
  const absl::Status status = PatientCalls(options).Call(
      [&](grpc::ClientContext&) { return ++count, Refused("DRAINING", kPatience / 2); });
  EXPECT_EQ(ReasonOfLoss(status), "DRAINING") << status;
  EXPECT_EQ(count, 1);
}

// As a repository does whose calls have all the rooms that it may have.
TEST(PatientCallsTest, WaitsWhereThereIsNoRoom) {
  for (const char* reason : {"TOO_MANY_CALLS", "MEMORY_EXHAUSTED"}) {
    int count = 0;
    const auto began = std::chrono::steady_clock::now();
    const absl::Status status =
        PatientCalls({.patience = kPatience}).Call([&](grpc::ClientContext&) {
          return ++count < 3 ? Refused(reason, milliseconds(600)) : grpc::Status();
        });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(count, 3);
    EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(1'200));
  }
}

// Whoever is refused by many servers, or beside many others, does not come again all at once.
TEST(PatientCallsTest, WaitsLongerThanItIsToldWhereThereIsNoRoom) {
  int count = 0;
  const auto began = std::chrono::steady_clock::now();
  const absl::Status status = PatientCalls({.patience = kPatience}).Call([&](grpc::ClientContext&) {
    return ++count < 3 ? Refused("TOO_MANY_CALLS", milliseconds(1)) : grpc::Status();
  });
  EXPECT_TRUE(status.ok()) << status;
  // Halves of 0.5 s and 1 s at least.
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(750));
}

// As where workers or fronts are restarted one after another.
TEST(PatientCallsTest, WaitsForWhoIsAway) {
  for (const char* reason : {"DRAINING", "NO_WORKER", "WORKER_UNREACHABLE"}) {
    int count = 0;
    const absl::Status status = PatientCalls({.patience = kPatience}).Call([&](auto&) {
      return ++count < 2 ? Away(reason) : grpc::Status();
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(count, 2);
  }
}

// The one server there is stops, its connections break, nobody listens, and it is back.
TEST(PatientCallsTest, WaitsForAServerThatItHasMet) {
  const std::vector<grpc::Status> answers = {Away("DRAINING"), Broken(),
                                             Broken(grpc::StatusCode::UNKNOWN),
                                             Broken(grpc::StatusCode::CANCELLED), grpc::Status()};
  std::size_t count = 0;
  const absl::Status status =
      PatientCalls({.patience = kPatience}).Call([&](auto&) { return answers[count++]; });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(count, answers.size());
}

TEST(PatientCallsTest, ACallThatWasAnsweredHasMetItForTheNext) {
  for (const grpc::Status& first :
       {grpc::Status(), Refused("INDEX_FULL", milliseconds(0)), Refused("NOT_YOURS", {})}) {
    PatientCalls calls({.patience = kPatience});
    EXPECT_EQ(calls.Call([&](auto&) { return first; }).ok(), first.ok());
    int count = 0;
    const absl::Status status =
        calls.Call([&](auto&) { return ++count < 2 ? Broken() : grpc::Status(); });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(count, 2);
  }
}

// At an address that is mistyped nobody is waited for, however often it is asked.
TEST(PatientCallsTest, NotForAServerThatNobodyHasMet) {
  PatientCalls calls({.patience = kPatience});
  for (int round = 1; round <= 3; ++round) {
    int count = 0;
    const absl::Status status = calls.Call([&](auto&) {
      ++count;
      return Broken();
    });
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(count, 1);
  }
}

TEST(PatientCallsTest, KnowsWhetherATryBeforeMayHaveBeenCarriedOut) {
  PatientCalls calls({.patience = kPatience});
  const auto ask = [&](const std::vector<grpc::Status>& answers) {
    std::size_t count = 0;
    EXPECT_TRUE(calls.Call([&](auto&) { return answers[count++]; }).ok());
    return calls.was_perhaps_done_before();
  };
  EXPECT_FALSE(ask({grpc::Status()}));
  EXPECT_TRUE(ask({Broken(), grpc::Status()}));
  EXPECT_TRUE(ask({Away("DRAINING"), Refused("TOO_MANY_CALLS", milliseconds(1)), grpc::Status()}));
  EXPECT_FALSE(ask({Refused("TOO_MANY_CALLS", milliseconds(1)), grpc::Status()}));
  EXPECT_FALSE(ask({grpc::Status()})) << "that was another call";
}

TEST(PatientCallsTest, SaysWhomItWaitsFor) {
  std::vector<CallWait> waits;
  CallOptions options{.patience = kPatience,
                      .on_wait = [&](const CallWait& wait) { waits.push_back(wait); }};
  int count = 0;
  const absl::Status status = PatientCalls(options).Call(
      [&](auto&) { return ++count < 3 ? Away("WORKER_UNREACHABLE", "w1") : grpc::Status(); });
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(WorkerOfLoss(waits[0].why), "w1");
  EXPECT_FALSE(RequestIdOf(waits[0].why).empty());
  EXPECT_NE(RequestIdOf(waits[0].why), RequestIdOf(waits[1].why));
  EXPECT_EQ(waits[0].tries, 1);
  EXPECT_EQ(waits[1].tries, 2);
  EXPECT_GT(waits[0].wait.count(), 0);
}

// Of each call of thousands that waits for its turn there would be a line.
TEST(PatientCallsTest, OfRoomItSaysSoOnlyWhereThatLasts) {
  std::vector<int> tries;
  const CallOptions options{.patience = kPatience,
                            .on_wait = [&](const CallWait& wait) { tries.push_back(wait.tries); }};
  int count = 0;
  const absl::Status status = PatientCalls(options).Call([&](auto&) {
    return ++count < 5 ? Refused("QUOTA_EXCEEDED", milliseconds(1)) : grpc::Status();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(tries, (std::vector<int>{3, 4}));
}

TEST(PatientCallsTest, TellsOfNoWaitThatDoesNotFollow) {
  for (const milliseconds patience : {milliseconds(0), milliseconds(30)}) {
    int told_count = 0;
    int count = 0;
    const CallOptions options{.patience = patience,
                              .on_wait = [&](const CallWait&) { ++told_count; }};
    const absl::Status status = PatientCalls(options).Call([&](auto&) {
      ++count;
      return Away("DRAINING");
    });
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(told_count, count - 1);
  }
}

TEST(PatientCallsTest, NotWhereTimeMendsNothing) {
  for (const grpc::Status& answer :
       {Refused("QUOTA_EXCEEDED", milliseconds(0)), Refused("INDEX_UNAVAILABLE", milliseconds(20)),
        Refused("NOT_YOURS", milliseconds(20)), Refused("INDEX_FULL", milliseconds(20)),
        grpc::Status(grpc::StatusCode::UNAVAILABLE, ""),
        grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "")}) {
    int count = 0;
    const absl::Status status =
        PatientCalls({.patience = kPatience}).Call([&](grpc::ClientContext&) {
          ++count;
          return answer;
        });
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(count, 1) << status;
  }
}

// As `--server A,B` names them: who has no index has not said that the other one has none.
TEST(PatientCallsTest, AnIndexThatIsNotThereIsAskedForElsewhere) {
  const auto ask = [](int others_count, std::vector<grpc::Status> answers, absl::Status& status) {
    int server = 0;
    std::vector<int> asked;
    CallOptions options{.patience = kPatience, .others_count = others_count, .go_elsewhere = [&] {
                          server = (server + 1) % (others_count + 1);
                        }};
    status = PatientCalls(options).Call([&](auto&) {
      asked.push_back(server);
      return asked.size() <= answers.size() ? answers[asked.size() - 1] : grpc::Status();
    });
    return asked;
  };
  const grpc::Status no_index = Refused("INDEX_UNAVAILABLE", milliseconds(1));
  absl::Status status;
  EXPECT_EQ(ask(2, {no_index}, status), (std::vector{0, 1}));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ask(2, {no_index, no_index, no_index, no_index}, status), (std::vector{0, 1, 2}));
  EXPECT_TRUE(IsIndexUnavailable(status)) << status;
  EXPECT_EQ(ask(1, {Away("DRAINING"), Refused("TOO_MANY_CALLS", milliseconds(1))}, status),
            (std::vector{0, 1, 1}));
  EXPECT_EQ(ask(0, {no_index}, status), (std::vector{0}));
}

// What was asked for with --retry-for: no wait begins that would end behind it.
TEST(PatientCallsTest, WaitsNoLongerThanItWasTold) {
  int count = 0;
  const auto began = std::chrono::steady_clock::now();
  const absl::Status status =
      PatientCalls({.patience = milliseconds(100)}).Call([&](grpc::ClientContext&) {
        ++count;
        return Refused("QUOTA_EXCEEDED", milliseconds(30));
      });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GT(count, 1);
  EXPECT_LE(count, 4);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

// Of `--retry-for 0` nothing is tried again.
TEST(PatientCallsTest, WithoutPatienceItAsksOnce) {
  for (const char* reason : {"QUOTA_EXCEEDED", "TOO_MANY_CALLS", "DRAINING"}) {
    int count = 0;
    const absl::Status status =
        PatientCalls({.patience = milliseconds(0)}).Call([&](grpc::ClientContext&) {
          ++count;
          return Refused(reason, milliseconds(20));
        });
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(count, 1);
  }
}

// As gRPC says it of a server that stops in the middle of a call. Else the program would end as if
// its user had stopped it.
TEST(PatientCallsTest, OnlyTheCallerCancels) {
  const auto end = [](auto&) { return Broken(grpc::StatusCode::CANCELLED); };
  EXPECT_TRUE(absl::IsUnavailable(PatientCalls({.patience = kPatience}).Call(end)));
  CallCancellation cancellation;
  PatientCalls calls({.cancellation = &cancellation, .patience = kPatience});
  EXPECT_TRUE(absl::IsUnavailable(calls.Call(end)));
  cancellation.Cancel();
  EXPECT_TRUE(absl::IsCancelled(calls.Call(end)));
}

TEST(PatientCallsTest, AWaitIsCancelled) {
  for (const char* reason : {"QUOTA_EXCEEDED", "TOO_MANY_CALLS", "NO_WORKER"}) {
    CallCancellation cancellation;
    int count = 0;
    std::thread canceller;
    const auto began = std::chrono::steady_clock::now();
    const absl::Status status =
        PatientCalls({&cancellation, kPatience}).Call([&](grpc::ClientContext&) {
          if (++count == 1) canceller = std::thread([&] { cancellation.Cancel(); });
          return Refused(reason, milliseconds(60'000));
        });
    canceller.join();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(count, 1);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
  }
}

// Before it has begun to wait, too: what the server said then is not what ended the call.
TEST(PatientCallsTest, IsCancelledWhileItIsRefused) {
  CallCancellation cancellation;
  int count = 0;
  PatientCalls calls({&cancellation, kPatience});
  const auto refuse_with = [&](const grpc::Status& refusal) {
    return calls.Call([&](auto&) {
      ++count;
      cancellation.Cancel();
      return refusal;
    });
  };
  absl::Status status = refuse_with(Refused("QUOTA_EXCEEDED", milliseconds(60'000)));
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(count, 1);
  status = refuse_with(Broken(grpc::StatusCode::PERMISSION_DENIED));
  EXPECT_FALSE(absl::IsCancelled(status)) << "that was its answer: " << status;
  EXPECT_EQ(count, 2);
}

// It ends as gRPC says of a connection that broke.
TEST(PatientCallsTest, WhatWasCancelledIsNotMadeAgain) {
  CallCancellation cancellation;
  int told_count = 0;
  PatientCalls calls({&cancellation, kPatience, [&](const CallWait&) { ++told_count; }});
  EXPECT_TRUE(calls.Call([](auto&) { return grpc::Status(); }).ok());
  int count = 0;
  const absl::Status status = calls.Call([&](auto&) {
    ++count;
    cancellation.Cancel();
    return Broken(grpc::StatusCode::CANCELLED);
  });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(count, 1);
  EXPECT_EQ(told_count, 0) << "the server is not away";
}

}  // namespace
}  // namespace kerf::client
