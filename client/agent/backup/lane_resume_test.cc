// A lane whose streams are lost at every kind of moment: what it uploads is the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/agent/backup/lane.h"
#include "client/agent/backup/testing/losing_server.h"

namespace kerf::agent {
namespace {

using client::FakeServer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kProfile[] = "fastcdc2020:min=2048,avg=8192,max=32768,level=1";

// Takes chunks as a store does, and commits each digest once, some at a time.
class StoringTaker final : public ChunkTaker {
 public:
  absl::Status Take(ChunkLane& lane, const AnsweredChunk& chunk,
                    std::span<const std::uint8_t> bytes) override {
    EXPECT_EQ(Fingerprint(DigestAlgorithm::kBlake3, bytes), chunk.digest);
    std::lock_guard lock(mutex_);
    lane_ = &lane;
    ++taken_count;
    if (chunk.verdict != v1::VERDICT_NEW) return absl::OkStatus();
    v1::CommitEntry& entry = waiting_.emplace_back();
    entry.set_digest(chunk.digest.bytes.data(), chunk.digest.bytes.size());
    entry.set_locator("place");
    if (waiting_.size() >= commit_after) SendLocked();
    return absl::OkStatus();
  }

  // What a sealed pack does.
  absl::Status Send() {
    std::lock_guard lock(mutex_);
    SendLocked();
    return absl::OkStatus();
  }

  std::atomic<std::uint64_t> taken_count = 0;
  std::size_t commit_after = 8;

 private:
  void SendLocked() {
    if (waiting_.empty()) return;
    lane_->Commit(waiting_, waiting_.size());
    waiting_.clear();
  }

  std::mutex mutex_;
  ChunkLane* lane_ = nullptr;
  std::vector<v1::CommitEntry> waiting_;
};

class LaneResumeTest : public testing::Test {
 protected:
  void Start(LosingServer::Choose choose) {
    taker_ = std::make_unique<StoringTaker>();
    taker_->commit_after = 1 + random_.Below(20);
    losing_ = std::make_unique<LosingServer>(std::move(choose));
    server_ = std::make_unique<FakeServer>(*losing_);
    Lane::Options options;
    options.upload.stream.open.set_profile(kProfile);
    options.upload.servers = {server_->address()};
    options.upload.retry = retry_;
    options.upload.seed = random_.Next();
    options.upload.on_lost = [this](const client::ResumingUpload::Lost& lost) {
      std::lock_guard lock(mutex_);
      lost_.push_back(lost);
    };
    options.upload.on_resumed = [this] { ++resumed_count_; };
    options.upload.on_late_commits = [this](const std::vector<v1::CommitEntry>& entries) {
      std::lock_guard lock(mutex_);
      for (const v1::CommitEntry& entry : entries) late_.insert(entry.digest());
    };
    options.profile = *ParseProfile(kProfile);
    options.answer_limit = answer_limit_;
    options.on_pressure = [this] { return taker_->Send(); };
    lane_ = std::make_unique<Lane>(std::move(options), *taker_);
  }

  static std::vector<Digest> RecipeOf(const std::string& content) {
    std::vector<Digest> recipe;
    for (std::size_t begin = 0; begin < content.size(); begin += LosingServer::kChunkBytes) {
      const std::string_view bytes =
          std::string_view(content).substr(begin, LosingServer::kChunkBytes);
      recipe.push_back(
          Fingerprint(DigestAlgorithm::kBlake3,
                      {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
    }
    return recipe;
  }

  absl::Status Send(const std::string& content) {
    std::size_t position = 0;
    const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
      std::size_t count = std::min(span.size(), content.size() - position);
      // A reader may give less than there is room for.
      if (count > 1) count = 1 + random_.Below(count);
      std::memcpy(span.data(), content.data() + position, count);
      position += count;
      return count;
    };
    const std::size_t index = sent_++;
    const auto on_complete = [this, index, recipe = RecipeOf(content)](const FileOutcome& outcome) {
      std::vector<Digest> digests;
      std::uint64_t bytes = 0;
      for (const ChunkRef& chunk : outcome.recipe) {
        digests.push_back(chunk.digest);
        bytes += chunk.length_bytes;
      }
      EXPECT_EQ(digests, recipe) << "file " << index;
      EXPECT_EQ(bytes, outcome.content_bytes);
      std::lock_guard lock(mutex_);
      EXPECT_EQ(completed_, index) << "in order";
      ++completed_;
    };
    absl::Status read_status;
    return lane_->SendFile(Cat("file-", index), content.size(), read, on_complete, read_status);
  }

  std::string RandomContent(std::size_t size_bytes) {
    std::string content(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    return content;
  }

  // As a backup does it. The files' chunks are all different.
  absl::Status Upload(const std::vector<std::string>& files) {
    for (const std::string& content : files) {
      if (absl::Status status = Send(content); !status.ok()) return status;
      if (random_.OneIn(3)) lane_->Flush();
      if (random_.OneIn(4)) {
        if (absl::Status status = lane_->WaitAnswered(); !status.ok()) return status;
      }
    }
    if (absl::Status status = lane_->WaitAnswered(); !status.ok()) return status;
    if (absl::Status status = taker_->Send(); !status.ok()) return status;
    return lane_->Finish();
  }

  // Nobody asks Choose any more, which knows of what is the test's own.
  void End() {
    lane_.reset();
    server_.reset();
  }

  void ExpectWhole(const std::vector<std::string>& files) {
    End();
    EXPECT_THAT(losing_->faults(), IsEmpty());
    EXPECT_EQ(completed_, files.size());
    std::size_t chunk_count = 0;
    const std::set<std::string> index = losing_->index();
    for (const std::string& content : files) {
      for (const Digest& digest : RecipeOf(content)) {
        ++chunk_count;
        const std::string bytes(digest.bytes.begin(), digest.bytes.end());
        EXPECT_TRUE(index.contains(bytes) || late_.contains(bytes)) << "nobody tells the index";
      }
    }
    EXPECT_EQ(taker_->taken_count, chunk_count) << "a chunk was stored twice";
  }

  void Reset() {
    End();
    lost_.clear();
    late_.clear();
    resumed_count_ = 0;
    sent_ = completed_ = 0;
  }

  const std::uint64_t seed_ = TestSeed();
  Random random_{seed_};
  client::RetryLimits retry_{.first_wait = std::chrono::milliseconds(1),
                             .longest_wait = std::chrono::milliseconds(4)};
  std::chrono::milliseconds answer_limit_ = kAnswerLimit;
  std::mutex mutex_;
  std::vector<client::ResumingUpload::Lost> lost_;
  std::set<std::string> late_;
  std::atomic<int> resumed_count_ = 0;
  std::size_t sent_ = 0;
  std::size_t completed_ = 0;
  std::unique_ptr<StoringTaker> taker_;
  std::unique_ptr<LosingServer> losing_;
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<Lane> lane_;
};

const grpc::Status kLost(grpc::StatusCode::UNAVAILABLE, "Socket closed");

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
  for (int round = 0; round < 60; ++round) {
    Reset();
    std::vector<std::string> files;
    const std::uint64_t file_count = 1 + random_.Below(12);
    for (std::uint64_t number = 0; number < file_count; ++number) {
      const std::size_t limits[] = {0, 100, 10'000, 400'000, 1'500'000};
      files.push_back(RandomContent(random_.Below(limits[random_.Below(5)] + 1)));
    }
    std::mutex mutex;
    Random losses(random_.Next());
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
  ASSERT_TRUE(Send(files[0]).ok());
  ASSERT_TRUE(lane_->WaitAnswered().ok());
  ASSERT_TRUE(taker_->Send().ok());
  done.get_future().wait();
  EXPECT_EQ(losing_->stream_count(), 1);
  ASSERT_TRUE(Send(files[1]).ok());
  ASSERT_TRUE(lane_->WaitAnswered().ok());
  ASSERT_TRUE(taker_->Send().ok());
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
  ASSERT_TRUE(Send(files[0]).ok());
  ASSERT_TRUE(lane_->WaitAnswered().ok());
  ASSERT_TRUE(taker_->Send().ok());
  done.get_future().wait();
  std::this_thread::sleep_for(retry_.time + std::chrono::milliseconds(100));
  const absl::Status status = Send(files[1]);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(lane_->WaitAnswered().ok());
  ASSERT_TRUE(taker_->Send().ok());
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
