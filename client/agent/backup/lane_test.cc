#include "client/agent/backup/lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/agent/backup/testing/cutting_server.h"
#include "client/cpp/channel.h"

namespace kerf::agent {
namespace {

using client::FakeServer;
using ::testing::HasSubstr;

constexpr char kProfile[] = "fastcdc2020:min=2048,avg=8192,max=32768,level=1";

// Takes everything and commits it, by default at once.
class CommittingTaker final : public ChunkTaker {
 public:
  absl::Status Take(ChunkLane& lane, const AnsweredChunk& chunk,
                    std::span<const std::uint8_t> /*bytes*/) override {
    ++taken_count;
    on_take();
    if (!commits) return absl::OkStatus();
    std::lock_guard lock(mutex_);
    v1::CommitEntry& entry = waiting_.emplace_back();
    entry.set_digest(chunk.digest.bytes.data(), 32);
    entry.set_locator(Cat(place, taken_count.load()));
    if (waiting_.size() < commit_after) return absl::OkStatus();
    if (reports) lane.ReportStale(waiting_);
    lane.Commit(waiting_, waiting_.size());
    waiting_.clear();
    return absl::OkStatus();
  }
  // What on_pressure does where nothing was committed at once.
  absl::Status Send(ChunkLane& lane) {
    std::lock_guard lock(mutex_);
    lane.Commit(waiting_, waiting_.size());
    waiting_.clear();
    return absl::OkStatus();
  }
  std::atomic<int> taken_count = 0;
  std::function<void()> on_take = [] {};
  bool commits = true;
  std::string place = "place ";
  std::size_t commit_after = 1;
  // Reports what it commits as stale.
  bool reports = false;

 private:
  std::mutex mutex_;
  std::vector<v1::CommitEntry> waiting_;
};

class LaneTest : public testing::Test {
 protected:
  void Start(FakeServer::Script script, std::chrono::milliseconds answer_limit = kAnswerLimit) {
    server_ = std::make_unique<FakeServer>(std::move(script));
    Lane::Options options;
    options.upload.stream.open.set_profile(kProfile);
    options.upload.stream.keep_place = keep_place_;
    options.upload.servers = {server_->address()};
    options.upload.retry = retry_;
    options.profile = *ParseProfile(kProfile);
    options.answer_limit = answer_limit;
    options.on_pressure = on_pressure_;
    options.on_index_epoch = on_index_epoch_;
    lane_ = std::make_unique<Lane>(std::move(options), taker_);
  }

  absl::Status Send(std::size_t size_bytes) {
    std::size_t left_bytes = size_bytes;
    const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
      const std::size_t count = std::min(span.size(), left_bytes);
      std::memset(span.data(), 'x', count);
      left_bytes -= count;
      return count;
    };
    absl::Status read_status;
    return lane_->SendFile(
        "file", size_bytes, read, [this](const FileOutcome&) { ++completed_count_; }, read_status);
  }

  absl::Status SendAll(std::size_t size_bytes) {
    if (const absl::Status status = Send(size_bytes); !status.ok()) return status;
    if (const absl::Status status = lane_->WaitAnswered(); !status.ok()) return status;
    return lane_->Finish();
  }

  // With somebody who watches as soon as the server has come as far as it goes (Reach).
  absl::Status SendAllWatched(std::size_t size_bytes) {
    std::future<absl::Status> sent =
        std::async(std::launch::async, [this, size_bytes] { return SendAll(size_bytes); });
    reached_.get_future().wait();
    while (lane_->Watch().ok()) std::this_thread::yield();
    return sent.get();
  }

  void Reach() {
    if (!reached_once_.exchange(true)) reached_.set_value();
  }

  // What ends a stream ends the lane.
  client::RetryLimits retry_{.time = {}, .first_wait = std::chrono::milliseconds(1)};
  std::chrono::milliseconds keep_place_ = client::UploadStream::Options().keep_place;
  std::function<absl::Status()> on_pressure_;
  std::function<void(std::uint64_t)> on_index_epoch_ = [](std::uint64_t) {};
  std::promise<void> reached_;
  std::atomic<bool> reached_once_ = false;
  std::atomic<int> completed_count_ = 0;
  CommittingTaker taker_;
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<Lane> lane_;
};

TEST_F(LaneTest, AServerThatKeepsToTheProfileIsTaken) {
  Start(CuttingServer());
  const absl::Status status = SendAll(10 * 4096 + 1);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(taker_.taken_count, 11) << "the last one may be short";
  EXPECT_EQ(completed_count_, 1);
}

TEST_F(LaneTest, AChunkShorterThanTheProfileAllowsIsRefused) {
  for (const std::size_t chunk_bytes : {1, 2047}) {
    Start(CuttingServer{.chunk_bytes = chunk_bytes});
    const absl::Status status = SendAll(10'000);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the server"));
  }
  EXPECT_EQ(taker_.taken_count, 0);
}

TEST_F(LaneTest, AChunkLongerThanTheProfileAllowsIsRefused) {
  Start(CuttingServer{.chunk_bytes = 32769});
  const absl::Status status = SendAll(100'000);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_EQ(taker_.taken_count, 0);
}

TEST_F(LaneTest, ALocatorLongerThanTheProtocolAllowsIsRefused) {
  CuttingServer server;
  server.lie = [](const v1::UploadFrame& frame, v1::UploadResponse& response) {
    if (!frame.has_file_end()) return;
    response.mutable_answers(0)->mutable_chunks()->mutable_chunks(0)->set_locator(
        std::string(65, 'l'));
  };
  Start(server);
  EXPECT_TRUE(absl::IsInternal(SendAll(5000)));
}

// Of a limit of few chunks an agent could only make a pack for every few chunks.
TEST_F(LaneTest, LimitsThatLeaveNoRoomAreRefused) {
  for (const auto& [chunks, files] :
       {std::pair{0u, 16384u}, {65536u, 0u}, {4095u, 16384u}, {65536u, 255u}}) {
    CuttingServer server;
    v1::Limits& limits = *server.opened.mutable_opened()->mutable_limits();
    limits.set_max_uncommitted_chunks(chunks);
    limits.set_max_uncommitted_files(files);
    Start(server);
    const absl::Status status = SendAll(5000);
    EXPECT_TRUE(absl::IsInternal(status)) << chunks << ", " << files << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("limits"));
  }
}

TEST_F(LaneTest, AChunkOfOtherBytesThanWereSentIsRefused) {
  CuttingServer server;
  server.lie = [](const v1::UploadFrame& frame, v1::UploadResponse& response) {
    if (!frame.has_file_end()) return;
    v1::Chunk& chunk = *response.mutable_answers(0)->mutable_chunks()->mutable_chunks(1);
    chunk.set_check(chunk.check() + 1);
  };
  Start(server);
  const absl::Status status = SendAll(8192);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(taker_.taken_count, 1);
}

TEST_F(LaneTest, AnAnswerThatNobodyKnowsIsPassedOver) {
  CuttingServer server;
  server.lie = [](const v1::UploadFrame& /*frame*/, v1::UploadResponse& response) {
    v1::UploadAnswer later;
    later.GetReflection()->MutableUnknownFields(&later)->AddLengthDelimited(1'000, "later");
    v1::UploadResponse mixed;
    for (const v1::UploadAnswer& answer : response.answers()) {
      *mixed.add_answers() = later;
      *mixed.add_answers() = answer;
    }
    response = std::move(mixed);
  };
  Start(server);
  const absl::Status status = SendAll(10 * 4096);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(taker_.taken_count, 10);
  EXPECT_EQ(completed_count_, 1);
}

// Of a Commit, too, which may be all that a stream is told for hours.
TEST_F(LaneTest, WhatAServerSaysOfItsIndexsEpochIsTold) {
  std::multiset<std::uint64_t> told;
  on_index_epoch_ = [&told](std::uint64_t epoch) { told.insert(epoch); };
  CuttingServer server;
  server.lie = [](const v1::UploadFrame& /*frame*/, v1::UploadResponse& response) {
    for (v1::UploadAnswer& answer : *response.mutable_answers()) {
      if (answer.has_file_done()) answer.mutable_file_done()->set_index_epoch(7);
      if (answer.has_committed()) answer.mutable_committed()->set_index_epoch(8);
    }
  };
  Start(server);
  const absl::Status status = SendAll(4096);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(told.contains(7));
  EXPECT_TRUE(told.contains(8));
}

TEST_F(LaneTest, MoreFilesDoneThanWereSentAreRefused) {
  CuttingServer server;
  server.lie = [](const v1::UploadFrame& frame, v1::UploadResponse& response) {
    if (frame.has_file_end()) *response.add_answers() = *response.answers().rbegin();
  };
  Start(server);
  const absl::Status status = SendAll(5000);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
}

TEST_F(LaneTest, AChunkBehindTheEndOfItsFileIsRefused) {
  // Also an empty one.
  for (const std::uint64_t length_bytes : {4096u, 0u}) {
    taker_.taken_count = 0;
    CuttingServer server;
    server.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse& response) {
      if (!frame.has_file_end()) return;
      v1::Chunks& chunks = *response.mutable_answers(0)->mutable_chunks();
      const v1::Chunk last = *chunks.chunks().rbegin();
      v1::Chunk& more = *chunks.add_chunks();
      more = last;
      more.set_end_offset(last.end_offset() + length_bytes);
      if (length_bytes == 0) more.set_check(XXH3_64bits(nullptr, 0));
    };
    Start(server);
    const absl::Status status = SendAll(8192);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_EQ(taker_.taken_count, 2);
  }
}

// Before half of what the server lets be uncommitted has been answered, nobody is pressed.
TEST_F(LaneTest, WhatIsPendingIsCommittedBeforeTheServersLimit) {
  CuttingServer server;
  server.opened.mutable_opened()->mutable_limits()->set_max_uncommitted_chunks(4096);
  taker_.commits = false;
  int pressure_count = 0;
  on_pressure_ = [&] {
    ++pressure_count;
    EXPECT_EQ(taker_.taken_count, 2048);
    lane_->Commit({}, 2048);
    return absl::OkStatus();
  };
  Start(server);
  // This server cuts a file when it has ended, and few may be unanswered.
  for (const std::size_t chunk_count : {1024, 1023, 1}) {
    ASSERT_TRUE(Send(chunk_count * 4096).ok());
    ASSERT_TRUE(lane_->WaitAnswered().ok());
    EXPECT_EQ(pressure_count, 0);
  }
  ASSERT_TRUE(Send(4096).ok());
  EXPECT_EQ(pressure_count, 1);
}

// Pieces of a metadata stream are put together in the order in which they are completed.
TEST_F(LaneTest, AnAnswerForAFileBeforeItsTurnIsRefused) {
  CuttingServer server;
  v1::UploadAnswer held_back;
  server.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse& response) {
    if (!frame.has_file_end()) return;
    if (!held_back.has_chunks()) {
      held_back = response.answers(0);
      response.clear_answers();
    } else {
      *response.add_answers() = held_back;
    }
  };
  Start(server);
  ASSERT_TRUE(Send(5000).ok());
  const absl::Status status = SendAll(5000);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_EQ(taker_.taken_count, 0);
  EXPECT_EQ(completed_count_, 0);
}

// One is complete when its answer comes, on the answer thread; the next is empty, and complete when
// it has been sent.
TEST_F(LaneTest, FilesCompleteOneAfterTheOther) {
  Start(CuttingServer());
  std::promise<void> entered;
  std::promise<void> released;
  std::vector<int> completed;
  std::size_t left_bytes = 5000;
  const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
    const std::size_t count = std::min(span.size(), std::exchange(left_bytes, 0));
    std::memset(span.data(), 'x', count);
    return count;
  };
  const auto first = [&](const FileOutcome&) {
    entered.set_value();
    released.get_future().wait();
    completed.push_back(1);
  };
  absl::Status read_status;
  ASSERT_TRUE(lane_->SendFile("first", 5000, read, first, read_status).ok());
  lane_->Flush();
  entered.get_future().wait();
  const auto second = [&](const FileOutcome&) { completed.push_back(2); };
  ASSERT_TRUE(lane_->SendFile("second", 0, read, second, read_status).ok());
  released.set_value();
  ASSERT_TRUE(lane_->WaitAnswered().ok());
  EXPECT_THAT(completed, ::testing::ElementsAre(1, 2));
}

TEST_F(LaneTest, WhatIsAnsweredIsAlsoCompleted) {
  Start(CuttingServer());
  std::promise<void> entered;
  std::promise<void> released;
  std::atomic<bool> completed = false;
  std::size_t left_bytes = 5000;
  const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
    const std::size_t count = std::min(span.size(), std::exchange(left_bytes, 0));
    std::memset(span.data(), 'x', count);
    return count;
  };
  const auto on_complete = [&](const FileOutcome&) {
    entered.set_value();
    released.get_future().wait();
    // Time for whoever does not wait for it.
    for (int round = 0; round < 1000; ++round) std::this_thread::yield();
    completed = true;
  };
  absl::Status read_status;
  ASSERT_TRUE(lane_->SendFile("file", 5000, read, on_complete, read_status).ok());
  lane_->Flush();
  entered.get_future().wait();
  released.set_value();
  ASSERT_TRUE(lane_->WaitAnswered().ok());
  EXPECT_TRUE(completed);
}

// Else a full server would give the place of an agent with a slow disk to another one.
TEST_F(LaneTest, WhileAnAnswerIsWorkedOffTheStreamKeepsItsPlace) {
  keep_place_ = std::chrono::milliseconds(1);
  // Of the server's threads, which end behind this function.
  const auto counted = std::make_shared<std::atomic<int>>(0);
  const std::atomic<int>& empty_count = *counted;
  CuttingServer server;
  server.on_empty_message = [counted] { ++*counted; };
  // The server owes the rest, but the agent is the one that is slow.
  Start(server, std::chrono::milliseconds(0));
  std::promise<void> entered;
  std::promise<void> released;
  taker_.on_take = [&] {
    entered.set_value();
    released.get_future().wait();
  };
  ASSERT_TRUE(Send(1000).ok());
  lane_->Flush();
  entered.get_future().wait();
  const int before_count = empty_count;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  // Of those that the answer thread sent itself, one may still be on its way.
  while (empty_count < before_count + 3 && std::chrono::steady_clock::now() < deadline) {
    EXPECT_TRUE(lane_->Watch().ok());
  }
  EXPECT_GE(empty_count, before_count + 3);
  released.set_value();
}

TEST_F(LaneTest, NoCommitAndNoReportHasMoreEntriesThanTheServerTakes) {
  CuttingServer server;
  server.opened.mutable_opened()->mutable_limits()->set_max_commit_entries(kMinCommitEntries);
  std::vector<std::uint64_t> commits;
  std::vector<std::uint64_t> reports;
  std::vector<std::string> locators;
  server.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse& /*response*/) {
    if (frame.has_report_stale()) {
      reports.push_back(static_cast<std::uint64_t>(frame.report_stale().entries_size()));
    }
    if (!frame.has_commit()) return;
    commits.push_back(static_cast<std::uint64_t>(frame.commit().entries_size()));
    for (const v1::CommitEntry& entry : frame.commit().entries()) {
      locators.push_back(entry.locator());
    }
  };
  taker_.commit_after = 2 * kMinCommitEntries + 3;
  taker_.reports = true;
  Start(server);
  const absl::Status status = SendAll(taker_.commit_after * 4096);
  EXPECT_TRUE(status.ok()) << status;
  const std::vector<std::uint64_t> parts = {kMinCommitEntries, kMinCommitEntries, 3};
  EXPECT_EQ(commits, parts);
  EXPECT_EQ(reports, parts);
  ASSERT_EQ(locators.size(), taker_.commit_after);
  EXPECT_EQ(locators.front(), "place 1");
  EXPECT_EQ(std::set(locators.begin(), locators.end()).size(), taker_.commit_after);
}

// Nor is less on its way at once: the server answers a file of many messages at its end.
TEST_F(LaneTest, NoMessageIsLongerThanTheServerTakes) {
  for (const std::uint32_t limit : {8u << 10, 100'000u, 4u << 20}) {
    SCOPED_TRACE(limit);
    taker_.taken_count = 0;
    CuttingServer server;
    server.opened.mutable_opened()->mutable_limits()->set_max_message_bytes(limit);
    std::size_t longest_data = 0;
    std::size_t longest_commit = 0;
    std::size_t longest_report = 0;
    std::set<std::string> locators;
    server.on_message = [&](const v1::UploadRequest& request) {
      const std::size_t bytes = EncodedBytes(request);
      if (request.frames().empty() || request.frames(0).has_open()) return;
      const bool is_commit = request.frames(0).has_commit();
      const bool is_report = request.frames(0).has_report_stale();
      std::size_t& longest =
          is_commit ? longest_commit : (is_report ? longest_report : longest_data);
      longest = std::max(longest, bytes);
      if (!is_commit) return;
      for (const v1::CommitEntry& entry : request.frames(0).commit().entries()) {
        locators.insert(entry.locator());
      }
    };
    taker_.commit_after = 300;
    taker_.reports = true;
    Start(server);
    const absl::Status status = SendAll(taker_.commit_after * 4096);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(locators.size(), taker_.commit_after);
    for (const std::size_t longest : {longest_data, longest_commit, longest_report}) {
      EXPECT_LE(longest, limit);
      // A message is as full as it can be.
      if (limit == 8u << 10) {
        EXPECT_GT(longest, 7u << 10);
      }
    }
  }
}

// A frame may be shorter than a message.
TEST_F(LaneTest, NoFrameIsLongerThanTheProtocolAllows) {
  CuttingServer server;
  server.opened.mutable_opened()->mutable_limits()->set_max_commit_entries(1 << 20);
  std::size_t longest = 0;
  server.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse& /*response*/) {
    if (frame.has_commit()) longest = std::max(longest, frame.ByteSizeLong());
  };
  server.chunk_bytes = 2048;
  taker_.place = std::string(50, 'p');
  taker_.commit_after = 6'000;
  Start(server);
  const absl::Status status = SendAll(taker_.commit_after * server.chunk_bytes);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_LE(longest, 448u << 10);
  EXPECT_GT(longest, 430u << 10);
}

TEST_F(LaneTest, AServerThatTakesHardlyAnyBytesIsRefused) {
  for (const std::uint32_t limit : {0u, 1u, (8u << 10) - 1}) {
    CuttingServer server;
    server.opened.mutable_opened()->mutable_limits()->set_max_message_bytes(limit);
    Start(server);
    const absl::Status status = SendAll(5000);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(Cat("messages of ", limit, " bytes")));
  }
  EXPECT_EQ(taker_.taken_count, 0);
}

TEST_F(LaneTest, AServerThatTakesHardlyAnyEntriesIsRefused) {
  for (const std::uint32_t count : {0u, 1u, static_cast<std::uint32_t>(kMinCommitEntries) - 1}) {
    CuttingServer server;
    server.opened.mutable_opened()->mutable_limits()->set_max_commit_entries(count);
    Start(server);
    const absl::Status status = SendAll(5000);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(Cat("takes ", count, " entries")));
  }
  EXPECT_EQ(taker_.taken_count, 0);
}

// Otherwise a server could go on for ever with answers to nothing.
TEST_F(LaneTest, AnswersToWhatWasNotSentAreRefused) {
  const auto answer_to_open = [&](const std::function<void(v1::UploadAnswer&)>& fill) {
    CuttingServer server;
    server.lie = [fill](const v1::UploadFrame& frame, v1::UploadResponse& response) {
      if (frame.has_file_begin()) fill(*response.add_answers());
    };
    Start(server);
    return SendAll(5000);
  };
  EXPECT_TRUE(absl::IsInternal(answer_to_open([](auto& answer) { answer.mutable_committed(); })));
  EXPECT_TRUE(absl::IsInternal(answer_to_open([](auto& answer) { answer.mutable_opened(); })));
  EXPECT_TRUE(absl::IsInternal(answer_to_open([](auto& answer) { answer.mutable_chunks(); })));
  EXPECT_TRUE(absl::IsInternal(answer_to_open([](auto& answer) { answer.mutable_file_done(); })));
  EXPECT_TRUE(absl::IsInternal(
      answer_to_open([](auto& answer) { answer.mutable_file_done()->set_file_number(1); })));
}

TEST_F(LaneTest, AServerThatDoesNotOpenIsGivenUp) {
  Start(
      [this](grpc::ServerContext& context, FakeServer::Stream& /*stream*/) {
        Reach();
        return FakeServer::StaySilent(context);
      },
      std::chrono::milliseconds(0));
  const absl::Status status = SendAllWatched(5000);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(server_->address()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the answer to Open"));
}

TEST_F(LaneTest, AServerThatDoesNotAnswerAFileIsGivenUp) {
  // More than the blocks of a stream hold: SendFile itself waits.
  for (const std::size_t size_bytes : {std::size_t{5000}, std::size_t{40} << 20}) {
    reached_ = {};
    reached_once_ = false;
    CuttingServer server;
    server.lie = [this](const v1::UploadFrame& frame, v1::UploadResponse& response) {
      if (frame.frame_case() == v1::UploadFrame::kData) Reach();
      if (frame.has_file_end()) response.clear_answers();
    };
    Start(server, std::chrono::milliseconds(0));
    const absl::Status status = SendAllWatched(size_bytes);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the chunks of what was sent"));
  }
}

// PRO-11, CLI-6: each file is a chunk, whatever little it holds.
TEST_F(LaneTest, NoMoreIsSentThanMayBecomeUncommitted) {
  constexpr std::int64_t kLimit = 4096;
  CuttingServer server;
  server.opened.mutable_opened()->mutable_limits()->set_max_uncommitted_chunks(kLimit);
  std::atomic<std::int64_t> uncommitted_count = 0;
  std::atomic<std::int64_t> most_uncommitted = 0;
  server.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse& /*response*/) {
    if (frame.has_commit()) uncommitted_count -= frame.commit().entries_size();
    if (frame.has_file_end()) ++uncommitted_count;
    most_uncommitted = std::max<std::int64_t>(most_uncommitted, uncommitted_count);
  };
  taker_.commit_after = SIZE_MAX;
  on_pressure_ = [&] { return taker_.Send(*lane_); };
  Start(server);
  constexpr int kFiles = 3 * kLimit;
  for (int number = 0; number < kFiles; ++number) ASSERT_TRUE(Send(1).ok());
  ASSERT_TRUE(lane_->WaitAnswered().ok());
  ASSERT_TRUE(taker_.Send(*lane_).ok());
  ASSERT_TRUE(lane_->Finish().ok());
  EXPECT_EQ(completed_count_, kFiles);
  EXPECT_LE(most_uncommitted, kLimit);
}

// CLI-8.
TEST_F(LaneTest, AnAnswerThatIsWrongOnceIsAskedForOnceMore) {
  using Change = std::function<void(v1::Chunk&)>;
  const Change changes[] = {
      [](v1::Chunk& chunk) { chunk.set_check(chunk.check() ^ 1); },
      [](v1::Chunk& chunk) { chunk.set_end_offset(chunk.end_offset() - 1); },
      [](v1::Chunk& chunk) { chunk.set_end_offset(chunk.end_offset() + (1 << 20)); },
      [](v1::Chunk& chunk) { chunk.set_digest("short"); }};
  retry_.time = std::chrono::minutes(1);
  for (const Change& change : changes) {
    for (const int wrong_count : {1, 2}) {
      CuttingServer server;
      std::atomic<int> count = 0;
      server.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse& response) {
        if (!frame.has_file_end() || ++count > wrong_count) return;
        change(*response.mutable_answers(0)->mutable_chunks()->mutable_chunks(2));
      };
      taker_.taken_count = completed_count_ = 0;
      Start(server);
      const absl::Status status = SendAll(10 * 4096 + 1);
      EXPECT_EQ(status.ok(), wrong_count == 1) << status;
      EXPECT_EQ(count, 2);
      // What came before it is not asked for again.
      EXPECT_EQ(taker_.taken_count, wrong_count == 1 ? 11 : 4);
      EXPECT_EQ(completed_count_, wrong_count == 1 ? 1 : 0);
      lane_.reset();
    }
  }
}

// It would wait for more than is sent to it.
TEST_F(LaneTest, AServerThatCutsLongerChunksThanItWasAskedToIsRefused) {
  for (const char* profile : {"fixed:size=32769", "fixed:size=1073741824", "of tomorrow"}) {
    CuttingServer server;
    server.opened.mutable_opened()->set_profile(profile);
    Start(server);
    const absl::Status status = SendAll(5000);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(profile));
  }
  EXPECT_EQ(taker_.taken_count, 0);
  CuttingServer server;
  server.opened.mutable_opened()->set_profile(kProfile);
  Start(server);
  EXPECT_TRUE(SendAll(5000).ok());
}

// Else more chunks than a server takes could be uncommitted before the agent hears of one.
TEST(LaneMaxBlocksTest, OfSmallChunksLittleIsSentAhead) {
  const auto blocks_of = [](std::uint32_t min_bytes, std::uint32_t max_bytes) {
    Profile profile;
    profile.min_bytes = min_bytes;
    profile.max_bytes = max_bytes;
    return Lane::MaxBlocks(profile);
  };
  EXPECT_EQ(blocks_of(2048, 65536), 32u);
  EXPECT_EQ(blocks_of(1024, 16384), 32u);
  EXPECT_EQ(blocks_of(512, 16384), 16u);
  EXPECT_EQ(blocks_of(64, 1024), 2u);
  // Three of the largest chunks (CLI-5), and blocks at both ends.
  EXPECT_EQ(blocks_of(64, 4 << 20), 26u);
}

// While the lane's own thread waits for more files to send.
TEST_F(LaneTest, AServerThatDoesNotAnswerAFlushedFileIsGivenUp) {
  CuttingServer server;
  server.lie = [this](const v1::UploadFrame& frame, v1::UploadResponse& response) {
    if (!frame.has_file_end()) return;
    response.clear_answers();
    Reach();
  };
  Start(server, std::chrono::milliseconds(0));
  ASSERT_TRUE(Send(5000).ok());
  EXPECT_TRUE(lane_->Watch().ok()) << "nothing has been sent";
  lane_->Flush();
  reached_.get_future().wait();
  while (lane_->Watch().ok()) std::this_thread::yield();
  EXPECT_TRUE(absl::IsDeadlineExceeded(lane_->Watch()));
}

TEST_F(LaneTest, AServerThatNeverSaysThatFilesAreDoneIsGivenUp) {
  CuttingServer server;
  server.lie = [this](const v1::UploadFrame& frame, v1::UploadResponse& response) {
    if (frame.has_file_end()) response.mutable_answers()->RemoveLast();
    if (frame.has_commit()) Reach();
  };
  Start(server, std::chrono::milliseconds(0));
  const absl::Status status = SendAllWatched(5000);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(completed_count_, 1);
}

TEST_F(LaneTest, AServerThatDoesNotEndTheStreamIsGivenUp) {
  CuttingServer server;
  server.on_half_close = [this] {
    Reach();
    return false;
  };
  Start(server, std::chrono::milliseconds(0));
  const absl::Status status = SendAllWatched(5000);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the end of the stream"));
}

TEST_F(LaneTest, CancelEndsAllWaiting) {
  Start([this](grpc::ServerContext& context, FakeServer::Stream& /*stream*/) {
    Reach();
    return FakeServer::StaySilent(context);
  });
  std::future<absl::Status> sent = std::async(std::launch::async, [this] { return SendAll(5000); });
  reached_.get_future().wait();
  lane_->Cancel();
  EXPECT_TRUE(absl::IsCancelled(sent.get()));
}

}  // namespace
}  // namespace kerf::agent
