#include "server/audit/sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/check.h"
#include "base/hash_chain.h"
#include "base/strings.h"
#include "server/audit/call_record.h"
#include "server/audit/turned_away.h"
#include "server/errors/errors.h"

namespace kerf::audit {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kPatience{20'000};

class SinkTest : public testing::Test {
 protected:
  SinkTest() {
    const char* const base = std::getenv("TEST_TMPDIR");
    folder_ = Cat(base != nullptr ? base : "/tmp", "/sink-XXXXXX");
    KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
    options_.path = folder_ + "/audit.log";
    options_.worker = "w1";
    options_.interval = milliseconds(10);
    options_.wall_clock_ms = [] { return 1'764'103'427'123; };
    // Time stands, except where a test says otherwise, for those that have no line of their own.
    options_.minor_rate = 0;
  }
  ~SinkTest() override {
    sink_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open() {
    auto opened = Sink::Open(options_);
    KERF_CHECK(opened.ok());
    sink_ = *std::move(opened);
  }
  std::shared_ptr<CallRecord> Begin(CallRecord::Kind kind = CallRecord::Kind::kChange) {
    return CallRecord::Begin(sink_.get(), kind,
                             {.method = "Method", .peer = "peer", .request_id = "id"});
  }
  void Change(std::uint64_t count = 1) {
    const auto call = Begin();
    call->AskFor(Count::kCommitsAsked, count);
    call->Add(Count::kCommitted, count);
    call->SetOutcome(absl::OkStatus());
  }
  // All lines, which have to be a chain. Ends the sink.
  std::vector<nlohmann::json> Lines() {
    sink_.reset();
    return ReadLines();
  }
  std::vector<nlohmann::json> ReadLines() const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(options_.path);
    std::string text;
    ChainPoint last;
    while (std::getline(file, text)) {
      const auto line = ReadChainLine(text);
      EXPECT_TRUE(line.has_value() && line->is_intact && line->prev == last.hash) << text;
      if (line.has_value()) last = line->point();
      lines.push_back(nlohmann::json::parse(text));
    }
    return lines;
  }
  std::vector<nlohmann::json> Of(const std::string& event) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& line : Lines()) {
      if (line["event"] == event) found.push_back(line);
    }
    return found;
  }
  template <typename Condition>
  static bool WaitFor(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return condition();
  }
  // The file may not grow while it lives.
  class FullDisk {
   public:
    explicit FullDisk(const std::string& path) {
      std::signal(SIGXFSZ, SIG_IGN);
      KERF_CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
      const rlimit limit{std::filesystem::file_size(path), before_.rlim_max};
      KERF_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
    ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

   private:
    rlimit before_{};
  };

  std::string folder_;
  Sink::Options options_;
  std::unique_ptr<Sink> sink_;
};

TEST_F(SinkTest, ACallHasALineWithAllThatIsKnownOfIt) {
  Open();
  {
    const auto call = CallRecord::Begin(
        sink_.get(), CallRecord::Kind::kChange,
        {.method = "Upload", .peer = "ipv4:192.0.2.1:7", .request_id = "id", .session = "s-1"});
    call->SetCaller("kerf://client/anna", "certificate");
    EXPECT_EQ(call->admission(), absl::OkStatus());
    call->SetOpen("anna", 1, "fastcdc2020-8k", "kerf/0.1 host");
    call->AskFor(Count::kCommitsAsked, 5);
    call->Add(Count::kCommitted, 3);
    call->SetOutcome(MakeError(Reason::kEpochBehind, "behind"));
    call->SetOutcome(absl::OkStatus());
  }
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0]["event"], "file");
  EXPECT_EQ(lines[1]["event"], "start");
  EXPECT_EQ(lines[1]["worker"], "w1");
  nlohmann::json call = lines[2];
  for (const char* member : {"seq", "prev", "hash"}) call.erase(member);
  EXPECT_EQ(call, nlohmann::json({{"time", "2025-11-25T20:43:47.123Z"},
                                  {"event", "call"},
                                  {"identity", "kerf://client/anna"},
                                  {"proof", "certificate"},
                                  {"peer", "ipv4:192.0.2.1:7"},
                                  {"method", "Upload"},
                                  {"repository", "anna"},
                                  {"digest", "blake3"},
                                  {"profile", "fastcdc2020-8k"},
                                  {"agent", "kerf/0.1 host"},
                                  {"counts", {{"commits_asked", 5}, {"committed", 3}}},
                                  {"outcome", "EPOCH_BEHIND"},
                                  {"message", "behind"},
                                  {"request_id", "id"},
                                  {"session", "s-1"},
                                  {"worker", "w1"}}));
  EXPECT_EQ(lines[3]["event"], "stop");
}

TEST_F(SinkTest, AnAlgorithmThatThereIsNotHasNoName) {
  Open();
  for (const int number : {0, 4, -1, 1'000'000}) {
    const auto call = Begin();
    call->SetRepository("anna", number);
    call->SetOutcome(MakeError(Reason::kBadField, "no such"));
  }
  for (const auto& line : Of("call")) EXPECT_EQ(line["digest"], "");
}

TEST_F(SinkTest, ReadingHasALineOnlyIfItWasRefused) {
  Open();
  Begin(CallRecord::Kind::kRead)->SetOutcome(absl::OkStatus());
  Begin(CallRecord::Kind::kRead)->SetOutcome(MakeError(Reason::kTooManyCalls, "full"));
  CallRecord::Refused(sink_.get(), {.method = "Other"}, MakeError(Reason::kDraining, "stops"));
  CallRecord::Refused(nullptr, {}, MakeError(Reason::kDraining, "nobody wants to know"));
  const auto calls = Of("call");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["outcome"], "TOO_MANY_CALLS");
  EXPECT_EQ(calls[1]["outcome"], "DRAINING");
}

TEST_F(SinkTest, ALineComesWhenNothingMoreCanHappen) {
  Open();
  auto call = Begin();
  std::shared_ptr<CallRecord> other_owner = call;
  call->SetOutcome(absl::CancelledError("gone"));
  call.reset();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(ReadLines().size(), 2u);
  other_owner->AskFor(Count::kCommitsAsked, 7);
  other_owner.reset();
  const auto calls = Of("call");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0]["outcome"], "CANCELLED");
  EXPECT_EQ(calls[0]["counts"]["commits_asked"], 7);
}

TEST_F(SinkTest, CallsThatChangedNothingAreCountedWhereTheyAreTooMany) {
  options_.minor_reserve = 10;
  Open();
  for (int call = 0; call < 1'000; ++call) {
    Begin()->SetOutcome(call % 2 == 0 ? absl::OkStatus() : MakeError(Reason::kBadField, "bad"));
    if (call % 100 == 0) Change();
  }
  const auto lines = Lines();
  std::uint64_t minor_count = 0;
  std::uint64_t change_count = 0;
  std::uint64_t left_out_count = 0;
  for (const auto& line : lines) {
    if (line["event"] == "left_out") {
      for (const auto& [outcome, count] : line["counts"].items()) {
        EXPECT_TRUE(outcome == "OK" || outcome == "BAD_FIELD");
        left_out_count += count.get<std::uint64_t>();
      }
    } else if (line["event"] == "call") {
      ++(line["counts"].empty() ? minor_count : change_count);
    }
  }
  EXPECT_EQ(minor_count, 10u);
  EXPECT_EQ(change_count, 10u);
  EXPECT_EQ(left_out_count, 990u);
}

TEST_F(SinkTest, WhomTheDoorHasNotLetInIsToldOf) {
  Open();
  const TurnedAway call{.peer = "ipv4:192.0.2.1:7",
                        .is_call = true,
                        .method = "/kerf.v1.IndexService/LookupChunks",
                        .request_id = "no id\n",
                        .outcome = "QUOTA_EXCEEDED",
                        .message = "too many"};
  RecordTurnedAway(sink_.get(), call, "kerf://greedy", "certificate");
  const TurnedAway connection{
      .peer = "ipv4:192.0.2.1:8", .outcome = "full", .message = "there is no room"};
  RecordTurnedAway(sink_.get(), connection, "", "none");
  RecordTurnedAway(nullptr, connection, "", "none");
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[2]["event"], "call");
  EXPECT_EQ(lines[2]["identity"], "kerf://greedy");
  EXPECT_EQ(lines[2]["proof"], "certificate");
  EXPECT_EQ(lines[2]["method"], "kerf.v1.IndexService/LookupChunks");
  EXPECT_EQ(lines[2]["outcome"], "QUOTA_EXCEEDED");
  EXPECT_EQ(lines[2]["request_id"], "");
  EXPECT_EQ(lines[2]["worker"], "w1");
  nlohmann::json told = lines[3];
  for (const char* member : {"seq", "prev", "hash"}) told.erase(member);
  EXPECT_EQ(told, nlohmann::json({{"time", "2025-11-25T20:43:47.123Z"},
                                  {"event", "connection"},
                                  {"identity", ""},
                                  {"proof", "none"},
                                  {"peer", "ipv4:192.0.2.1:8"},
                                  {"outcome", "full"},
                                  {"message", "there is no room"},
                                  {"worker", "w1"}}));
}

// However many of them there are, calls have their lines.
TEST_F(SinkTest, AFloodOfWhomTheDoorTurnsAwayIsCountedAndTakesNoLinesOfCalls) {
  options_.minor_reserve = 1'000;
  Open();
  const auto begin = std::chrono::steady_clock::now();
  for (int count = 0; count < 1'000; ++count) {
    RecordTurnedAway(sink_.get(), {.peer = "ipv4:192.0.2.1:8", .outcome = "full"}, "", "none");
  }
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
  RecordTurnedAway(sink_.get(), {.peer = "ipv4:192.0.2.1:8", .outcome = "cancels"}, "", "none");
  Begin()->SetOutcome(MakeError(Reason::kBadField, "bad"));
  std::map<std::string, std::uint64_t> line_counts;
  std::uint64_t left_out_count = 0;
  for (const auto& line : Lines()) {
    if (line.contains("outcome")) ++line_counts[line["outcome"]];
    if (line["event"] == "left_out") left_out_count += line["counts"].value("full", 0u);
  }
  EXPECT_EQ(line_counts["cancels"], 1u);
  EXPECT_EQ(line_counts["BAD_FIELD"], 1u);
  EXPECT_GE(line_counts["full"], 10u);
  EXPECT_LE(line_counts["full"], 10u * static_cast<std::uint64_t>(seconds.count() + 1));
  EXPECT_EQ(line_counts["full"] + left_out_count, 1'000u);
}

// Nor by being turned away for many reasons.
TEST_F(SinkTest, AFloodOfManyReasonsTakesNoMoreThanHalfOfTheLinesOfCalls) {
  options_.minor_reserve = 40;
  options_.minor_rate = 0;
  Open();
  for (int count = 0; count < 100; ++count) {
    const TurnedAway client{.peer = "ipv4:192.0.2.1:8", .outcome = Cat("reason-", count % 10)};
    RecordTurnedAway(sink_.get(), client, "", "none");
  }
  for (int count = 0; count < 21; ++count) {
    Begin()->SetOutcome(MakeError(Reason::kBadField, "bad"));
  }
  std::map<std::string, int> line_counts;
  for (const auto& line : Lines()) ++line_counts[line["event"]];
  EXPECT_EQ(line_counts["connection"], 20);
  EXPECT_EQ(line_counts["call"], 20);
}

TEST_F(SinkTest, ManyThreadsLoseNothing) {
  Open();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      for (int call = 0; call < 500; ++call) Change();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Of("call").size(), 2'000u);
}

TEST_F(SinkTest, ADiskThatIsFullIsKnownAndNothingIsLost) {
  Open();
  Change(1);
  ASSERT_TRUE(WaitFor([&] { return ReadLines().size() == 3; }));
  {
    const FullDisk full(options_.path);
    Change(2);
    ASSERT_TRUE(WaitFor([&] { return !sink_->status().ok(); }));
    EXPECT_THAT(std::string(sink_->status().message()), HasSubstr(options_.path));
    for (int count = 3; count < 100; ++count) Change(count);
    metrics::Page page;
    sink_->AddMetrics(page);
    EXPECT_THAT(page.text(), HasSubstr("kerf_audit_writable 0"));
  }
  EXPECT_TRUE(WaitFor([&] { return sink_->status().ok(); }));
  Change(100);
  const auto calls = Of("call");
  ASSERT_EQ(calls.size(), 100u);
  for (std::size_t index = 0; index < calls.size(); ++index) {
    EXPECT_EQ(calls[index]["counts"]["committed"], index + 1);
  }
}

TEST_F(SinkTest, WhereNoLineCanWaitNoCallBegins) {
  options_.max_waiting = 3;
  Open();
  const auto first = Begin();
  const auto second = Begin();
  const auto third = Begin();
  const auto fourth = Begin();
  EXPECT_EQ(third->admission(), absl::OkStatus());
  EXPECT_EQ(ReasonOf(fourth->admission()), Reason::kAuditUnavailable);
  EXPECT_EQ(Begin(CallRecord::Kind::kRead)->admission(), absl::OkStatus());
  EXPECT_FALSE(sink_->status().ok());
  fourth->SetOutcome(fourth->admission());
}

TEST_F(SinkTest, WhereItIsToGoOnCallsBeginWithoutAPlace) {
  options_.max_waiting = 1;
  options_.refuses = false;
  Open();
  const auto first = Begin();
  const auto second = Begin();
  EXPECT_EQ(second->admission(), absl::OkStatus());
  second->AskFor(Count::kCommitsAsked, 1);
}

TEST_F(SinkTest, PlacesComeBack) {
  options_.max_waiting = 3;
  Open();
  for (int round = 0; round < 50; ++round) {
    Change();
    Begin()->SetOutcome(absl::OkStatus());
    ASSERT_TRUE(WaitFor([&] { return sink_->status().ok(); }));
  }
  EXPECT_EQ(Begin()->admission(), absl::OkStatus());
}

TEST_F(SinkTest, WhatIsRefusedWithoutEndTakesNoMemoryWithoutEnd) {
  options_.minor_reserve = 1'000'000;
  options_.max_minor_bytes = 50'000;
  Open();
  std::uint64_t call_count = 0;
  {
    const FullDisk full(options_.path);
    Change();
    ASSERT_TRUE(WaitFor([&] { return !sink_->status().ok(); }));
    for (int call = 0; call < 1'000; ++call) {
      Begin(CallRecord::Kind::kRead)->SetOutcome(MakeError(Reason::kBadField, "bad"));
    }
  }
  ASSERT_TRUE(WaitFor([&] { return sink_->status().ok(); }));
  std::uint64_t lost_count = 0;
  for (const auto& line : Lines()) {
    call_count += line["event"] == "call" ? 1 : 0;
    if (line["event"] == "lost") lost_count += line["counts"]["records"].get<std::uint64_t>();
  }
  EXPECT_GT(lost_count, 800u);
  EXPECT_EQ(lost_count + call_count, 1'001u);
}

TEST_F(SinkTest, AFileThatWasMovedIsNoticed) {
  Open();
  Change();
  std::filesystem::rename(options_.path, options_.path + ".1");
  EXPECT_TRUE(WaitFor([&] { return std::filesystem::exists(options_.path); }));
  Change();
  EXPECT_EQ(sink_->status(), absl::OkStatus());
}

}  // namespace
}  // namespace kerf::audit
