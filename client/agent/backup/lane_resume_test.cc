// A lane whose streams are lost at every kind of moment: what it uploads is the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/random.h"
#include "base/strings.h"
#include "client/agent/backup/testing/resuming_lane_test.h"

namespace kerf::agent {
namespace {

using client::FakeServer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LaneResumeTest : public ResumingLaneTest {};

// The first, the second and so on stream that gets there is lost there.
TEST_F(LaneResumeTest, EveryMomentIsSurvived) {
  for (int moment = 0; moment < kMomentCount; ++moment) {
    for (const int nth : {1, 2, 5}) {
      SCOPED_TRACE(Cat("moment ", moment, ", time ", nth));
      Reset();
      std::atomic<int> count = 0;
      // A stream must have been open before: else nobody is there.
      Start([&, moment, nth](Moment now) {
        if (static_cast<int>(now) != moment || moment == 0) return grpc::Status::OK;
        return ++count == nth ? kLost : grpc::Status::OK;
      });
      const std::vector<std::string> files = {RandomContent(300'000), "", RandomContent(100),
                                              RandomContent(2'000'000), RandomContent(50'000)};
      const absl::Status status = Upload(files);
      EXPECT_TRUE(status.ok()) << status;
      ExpectWhole(files);
    }
  }
}

TEST_F(LaneResumeTest, RandomLossesChangeNothing) {
  for (int round = 0; round < kRandomRounds; ++round) {
    Reset();
    std::vector<std::string> files;
    const std::uint64_t file_count = 1 + random_.Below(12);
    for (std::uint64_t number = 0; number < file_count; ++number) {
      const std::size_t limits[] = {0, 100, 10'000, 400'000, 1'500'000};
      files.push_back(RandomContent(random_.Below(limits[random_.Below(5)] + 1)));
    }
    std::mutex mutex;
    Random losses(random_.Next());
    choose_max_message_bytes_ = [&] {
      const std::lock_guard lock(mutex);
      const std::uint32_t limits[] = {8U << 10, 64U << 10, 4U << 20};
      return limits[losses.Below(3)];
    };
    // The end of a file may need a dozen frames in a row to be answered.
    const std::uint64_t rarity = 8 + random_.Below(40);
    bool opened = false;
    Start([&](Moment now) {
      std::lock_guard lock(mutex);
      opened = opened || now == Moment::kOpened;
      return opened && losses.OneIn(rarity) ? kLost : grpc::Status::OK;
    });
    const absl::Status status = Upload(files);
    ASSERT_TRUE(status.ok()) << status << ", round " << round;
    ExpectWhole(files);
    if (HasFailure()) break;
  }
}

// It waits for the file that needs a stream, and for no other reason.
TEST_F(LaneResumeTest, AStreamThatIsLostBetweenFilesIsOpenedForTheNextOne) {
  std::promise<void> done;
  std::atomic<bool> once = false;
  Start([&](Moment now) {
    if (now != Moment::kDoneSent || once.exchange(true)) return grpc::Status::OK;
    done.set_value();
    return kLost;
  });
  const std::vector<std::string> files = {RandomContent(10'000), RandomContent(20'000)};
  SendWhole(files[0]);
  ASSERT_FALSE(HasFatalFailure());
  done.get_future().wait();
  EXPECT_EQ(losing_->stream_count(), 1);
  SendWhole(files[1]);
  EXPECT_TRUE(lane_->Finish().ok());
  EXPECT_EQ(losing_->stream_count(), 2);
  ExpectWhole(files);
}

// Nothing is tried while nothing is wanted.
TEST_F(LaneResumeTest, TimeBetweenFilesIsNoTimeOfTrying) {
  retry_.time = std::chrono::seconds(1);
  std::promise<void> done;
  std::atomic<int> opened_count = 0;
  std::atomic<bool> once = false;
  Start([&](Moment now) {
    if (now == Moment::kOpened && ++opened_count == 2) return kLost;
    if (now != Moment::kDoneSent || once.exchange(true)) return grpc::Status::OK;
    done.set_value();
    return kLost;
  });
  const std::vector<std::string> files = {RandomContent(10'000), RandomContent(20'000)};
  SendWhole(files[0]);
  ASSERT_FALSE(HasFatalFailure());
  done.get_future().wait();
  std::this_thread::sleep_for(retry_.time + std::chrono::milliseconds(100));
  SendWhole(files[1]);
  EXPECT_TRUE(lane_->Finish().ok());
  EXPECT_EQ(losing_->stream_count(), 3);
  ExpectWhole(files);
}

TEST_F(LaneResumeTest, OnlyWhatWasNotAnsweredIsSentAgain) {
  std::atomic<int> answers = 0;
  Start([&](Moment now) {
    return now == Moment::kChunksSent && ++answers == 10 ? kLost : grpc::Status::OK;
  });
  const std::vector<std::string> files = {RandomContent(20'000'000)};
  EXPECT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  EXPECT_EQ(losing_->stream_count(), 2);
  // Less than a stream has on its way.
  EXPECT_LT(losing_->data_bytes(), 20'000'000u + (17u << 20));
  EXPECT_EQ(resumed_count_, 1);
}

TEST_F(LaneResumeTest, WithoutProgressItGivesUp) {
  retry_.tries = 4;
  // The first stream is lost with a file on its way: a loss between files is not told of.
  std::atomic<bool> has_data = false;
  Start([&](Moment now) {
    if (now == Moment::kInData) has_data = true;
    return now == Moment::kInData || (has_data && now == Moment::kOpened) ? kLost
                                                                          : grpc::Status::OK;
  });
  const absl::Status status = Upload({RandomContent(100'000)});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(HasSubstr("gave up after 4 tries"), HasSubstr(server_->address()),
                               HasSubstr("Socket closed")));
  End();
  EXPECT_EQ(lost_.size(), 4u);
}

// As a pipe whose writer computes for an hour: the server ends the stream, and nobody misses it
// until there is something to send. That is no time of trying, and said to nobody.
TEST_F(LaneResumeTest, ASourceThatIsSilentForLongIsWaitedFor) {
  constexpr int kSilenceCount = 4;
  retry_.time = std::chrono::milliseconds(300);
  retry_.tries = 2;
  std::atomic<int> silence_count = 0;
  std::atomic<int> ended_count = 0;
  // Before it answers anything: from one silence to the next nothing is got.
  Start([&](Moment now) {
    if (now != Moment::kInData || ended_count == kSilenceCount) return grpc::Status::OK;
    while (silence_count == ended_count) std::this_thread::yield();
    ++ended_count;
    return FakeServer::Refusal(grpc::StatusCode::DEADLINE_EXCEEDED, "IDLE_TIMEOUT");
  });
  // More than a message.
  constexpr std::size_t kBetween = 1'000'000;
  before_read_ = [&](std::size_t position) {
    const int before = silence_count;
    if (before == kSilenceCount || position < kBetween * static_cast<std::size_t>(before + 1)) {
      return;
    }
    ++silence_count;
    while (ended_count <= before) std::this_thread::yield();
    std::this_thread::sleep_for(retry_.time + std::chrono::milliseconds(100));
    EXPECT_EQ(losing_->stream_count(), before + 1) << "nothing was to be sent";
  };
  const std::vector<std::string> files = {RandomContent((kSilenceCount + 1) * kBetween)};
  const absl::Status status = Upload(files);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(silence_count, kSilenceCount);
  EXPECT_EQ(losing_->stream_count(), kSilenceCount + 1);
  EXPECT_THAT(lost_, IsEmpty());
  ExpectWhole(files);
}

TEST_F(LaneResumeTest, ASourceMayEndBehindASilence) {
  constexpr std::size_t kSize = 1'000'000;
  std::atomic<bool> is_silent = false;
  std::atomic<bool> is_ended = false;
  Start([&](Moment now) {
    if (now != Moment::kInData || is_ended) return grpc::Status::OK;
    while (!is_silent) std::this_thread::yield();
    is_ended = true;
    return FakeServer::Refusal(grpc::StatusCode::DEADLINE_EXCEEDED, "IDLE_TIMEOUT");
  });
  before_read_ = [&](std::size_t position) {
    if (position < kSize || is_silent.exchange(true)) return;
    while (!is_ended) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  const std::vector<std::string> files = {RandomContent(kSize)};
  const absl::Status status = Upload(files);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(losing_->stream_count(), 2);
  ExpectWhole(files);
}

// While nobody knows whether it will ever give anything.
TEST_F(LaneResumeTest, WhoWaitsForASilentSourceCanBeCancelled) {
  std::atomic<bool> is_silent = false;
  std::atomic<bool> is_ended = false;
  Start([&](Moment now) {
    if (now != Moment::kInData) return grpc::Status::OK;
    while (!is_silent) std::this_thread::yield();
    is_ended = true;
    return FakeServer::Refusal(grpc::StatusCode::DEADLINE_EXCEEDED, "IDLE_TIMEOUT");
  });
  before_read_ = [&](std::size_t position) {
    if (position < 1'000'000 || is_silent.exchange(true)) return;
    while (!is_ended) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    lane_->Cancel();
    while (lane_->Watch().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const absl::Status status = Send(RandomContent(3'000'000));
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

// It was not the source that kept the stream waiting: there is more to send, so it is missed.
TEST_F(LaneResumeTest, WhoHasMoreToSendTriesAgainAtOnce) {
  retry_.tries = 3;
  std::atomic<bool> has_data = false;
  Start([&](Moment now) {
    if (now == Moment::kInData) has_data = true;
    const bool ends = now == Moment::kInData || (has_data && now == Moment::kOpened);
    return ends ? FakeServer::Refusal(grpc::StatusCode::DEADLINE_EXCEEDED, "IDLE_TIMEOUT")
                : grpc::Status::OK;
  });
  const absl::Status status = Upload({RandomContent(5'000'000)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("gave up after 3 tries"));
}

TEST_F(LaneResumeTest, WhatIsFinalIsNotTried) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::DATA_LOSS,
        grpc::StatusCode::FAILED_PRECONDITION, grpc::StatusCode::RESOURCE_EXHAUSTED}) {
    Reset();
    Start([code](Moment now) {
      return now == Moment::kInData ? grpc::Status(code, "no") : grpc::Status::OK;
    });
    const absl::Status status = Upload({RandomContent(100'000)});
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code)) << status;
    End();
    EXPECT_EQ(losing_->stream_count(), 1);
  }
}

// Nor is what no server of the protocol answers, which has the code of a connection that broke.
TEST_F(LaneResumeTest, AnAnswerThatIsNoneIsNotAskedForAgain) {
  std::atomic<int> stream_count = 0;
  const FakeServer wrong([&](grpc::ServerContext& context, FakeServer::Stream& stream) {
    ++stream_count;
    v1::UploadResponse response;
    *response.add_answers() = CuttingServer::Opened();
    stream.Write(response);
    response.GetReflection()->MutableUnknownFields(&response)->AddLengthDelimited(1000)->resize(
        limits::kMaxAnswerBytes);
    stream.Write(response);
    return FakeServer::StaySilent(context);
  });
  retry_.tries = 3;
  adjust_upload_ = [&](client::ResumingUpload::Options& upload) {
    upload.servers = {wrong.address()};
  };
  Start([](Moment) { return grpc::Status::OK; });
  const absl::Status status = Upload({RandomContent(100'000)});
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the server sent an answer of"));
  End();
  EXPECT_EQ(stream_count, 1);
}

// Memory that is broken: a server that is told the hash of what the bytes are now finds no fault.
TEST_F(LaneResumeTest, WhatHasChangedWhileItWaitedIsNotSentAgain) {
  constexpr std::size_t kFileBytes = 5'000;
  std::uint8_t* kept = nullptr;
  adjust_upload_ = [&](client::ResumingUpload::Options& upload) {
    upload.on_lost = [&](const client::ResumingUpload::Lost& /*lost*/) { *kept ^= 1; };
  };
  std::atomic<bool> once = false;
  Start([&](Moment now) {
    return now == Moment::kInData && !once.exchange(true) ? kLost : grpc::Status::OK;
  });
  bool is_read = false;
  const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
    if (std::exchange(is_read, true)) return std::size_t{0};
    std::fill_n(span.data(), kFileBytes, std::uint8_t{7});
    kept = span.data();
    return kFileBytes;
  };
  absl::Status read_status;
  absl::Status status = lane_->SendFile("file", 0, read, [](const FileOutcome&) {}, read_status);
  if (status.ok()) status = lane_->WaitAnswered();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("are not those that were read"));
  EXPECT_EQ(taker_->taken_count, 0u);
  End();
}

// What a server says at a file's end that has answered so much of it.
grpc::Status EndByMismatch(FakeServer::Stream& stream, std::size_t answered_bytes) {
  v1::UploadRequest request;
  std::string content;
  while (stream.Read(&request)) {
    for (const v1::UploadFrame& frame : request.frames()) {
      v1::UploadResponse response;
      if (frame.has_open()) *response.add_answers() = CuttingServer::Opened();
      if (frame.frame_case() == v1::UploadFrame::kData) content += frame.data();
      for (std::size_t at = 0; frame.has_file_end() && at < answered_bytes;) {
        const std::size_t end = std::min(at + LosingServer::kChunkBytes, content.size());
        const std::span<const std::uint8_t> bytes(
            reinterpret_cast<const std::uint8_t*>(content.data()) + at, end - at);
        const Digest digest = Fingerprint(DigestAlgorithm::kBlake3, bytes);
        v1::Chunks& chunks = *response.add_answers()->mutable_chunks();
        chunks.set_file_number(1);
        v1::Chunk& chunk = *chunks.add_chunks();
        chunk.set_end_offset(end);
        chunk.set_digest(digest.bytes.data(), digest.bytes.size());
        chunk.set_check(Xxh3Of64(bytes));
        chunk.set_verdict(v1::VERDICT_NEW);
        at = end;
      }
      if (!response.answers().empty()) stream.Write(response);
      if (frame.has_file_end()) {
        return FakeServer::Refusal(grpc::StatusCode::DATA_LOSS, "CONTENT_MISMATCH");
      }
    }
  }
  return grpc::Status::OK;
}

// It may be what was answered that is wrong, and that is stored. So where all of it was: no stream
// that only lacks its end makes it whole.
TEST_F(LaneResumeTest, AMismatchIsTriedAgainIfNothingOfTheFileWasAnswered) {
  constexpr std::size_t kFileBytes = 10'000;
  for (const std::size_t answered_bytes : {std::size_t{0}, std::size_t{1}, kFileBytes}) {
    SCOPED_TRACE(answered_bytes);
    const bool answers_some = answered_bytes > 0;
    Reset();
    std::atomic<int> stream_count = 0;
    const FakeServer server([&](grpc::ServerContext& context, FakeServer::Stream& stream) {
      if (++stream_count > 1) return CuttingServer()(context, stream);
      return EndByMismatch(stream, answered_bytes);
    });
    adjust_upload_ = [&](client::ResumingUpload::Options& upload) {
      upload.servers = {server.address()};
    };
    Start([](Moment) { return grpc::Status::OK; });
    const absl::Status status = Upload({RandomContent(kFileBytes)});
    EXPECT_EQ(status.ok(), !answers_some) << status;
    EXPECT_EQ(absl::IsDataLoss(status), answers_some) << status;
    EXPECT_EQ(taker_->taken_count, answered_bytes == 1 ? 1u : 3u);
    End();
    EXPECT_EQ(stream_count, answers_some ? 1 : 2);
  }
}

// A worker that is stopped, say, keeps its connections.
TEST_F(LaneResumeTest, AStreamThatFallsSilentIsLost) {
  answer_limit_ = std::chrono::milliseconds(100);
  std::promise<void> released;
  const std::shared_future<void> release = released.get_future().share();
  std::atomic<bool> once = false;
  Start([&, release](Moment now) {
    if (now == Moment::kChunksSent && !once.exchange(true)) release.wait();
    return grpc::Status::OK;
  });
  const std::vector<std::string> files = {RandomContent(3'000'000)};
  std::atomic<bool> is_over = false;
  std::thread watch([&] {
    while (!is_over) {
      EXPECT_TRUE(lane_->Watch().ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const absl::Status status = Upload(files);
  is_over = true;
  watch.join();
  released.set_value();
  EXPECT_TRUE(status.ok()) << status;
  ExpectWhole(files);
  ASSERT_FALSE(lost_.empty());
  EXPECT_THAT(std::string(lost_[0].status.message()), HasSubstr("was silent for"));
}

// As one that is full: what it says is kerf's own word, so that somebody was there.
TEST_F(LaneResumeTest, AServerThatRefusesTheFirstStreamIsTriedAgain) {
  const grpc::Status refusal = FakeServer::Refusal(grpc::StatusCode::UNAVAILABLE, "NO_WORKER");
  std::atomic<int> count = 0;
  Start([&](Moment now) {
    return now == Moment::kBeforeOpened && ++count < 4 ? refusal : grpc::Status::OK;
  });
  const std::vector<std::string> files = {RandomContent(100'000)};
  EXPECT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  EXPECT_EQ(lost_.size(), 3u);
}

TEST_F(LaneResumeTest, AServerThatNobodyHasMetIsNotWaitedFor) {
  Start([](Moment) { return kLost; });
  EXPECT_TRUE(absl::IsUnavailable(Upload({"content"})));
  EXPECT_EQ(losing_->stream_count(), 1);
  EXPECT_THAT(lost_, IsEmpty());
}

}  // namespace
}  // namespace kerf::agent
