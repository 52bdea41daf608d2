// A lane whose server loses its streams when a test says so: what tests of lost streams begin with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/agent/backup/lane.h"
#include "client/agent/backup/testing/losing_server.h"

namespace kerf::agent {

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

class ResumingLaneTest : public ::testing::Test {
 protected:
  static constexpr char kProfile[] = "fastcdc2020:min=2048,avg=8192,max=32768,level=1";

  // Each round hashes megabytes several times: of many, some under a sanitizer.
  static constexpr int kRandomRounds = kIsSanitized ? 15 : 60;

  // By which LosingServer cuts indeed.
  static constexpr char kServersRule[] = "fixed:size=4096";

  void Start(LosingServer::Choose choose) {
    taker_ = std::make_unique<StoringTaker>();
    taker_->commit_after = 1 + random_.Below(20);
    const auto never = [] { return false; };
    losing_ = std::make_unique<LosingServer>(
        std::move(choose), lets_client_cut_ ? lets_client_cut_ : never, choose_max_message_bytes_);
    server_ = std::make_unique<client::FakeServer>(*losing_, nullptr, credentials_);
    Lane::Options options;
    const std::string profile = lets_client_cut_ ? kServersRule : kProfile;
    options.upload.stream.open.set_profile(profile);
    if (lets_client_cut_) {
      options.upload.stream.open.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
      options.upload.stream.open.set_cutter(v1::CUTTER_CLIENT);
    }
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
    if (adjust_upload_) adjust_upload_(options.upload);
    options.profile = *ParseProfile(profile);
    options.doubt_after = doubt_after_;
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
      if (before_read_) before_read_(position);
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

  // Until all of it is stored, and committed or on its way to be.
  void SendWhole(const std::string& content) {
    const absl::Status status = Send(content);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(lane_->WaitAnswered().ok());
    ASSERT_TRUE(taker_->Send().ok());
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
    EXPECT_THAT(losing_->faults(), ::testing::IsEmpty());
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
  std::chrono::milliseconds doubt_after_ = kDoubtAfter;
  std::chrono::milliseconds answer_limit_ = kAnswerLimit;
  // Called each time that a file is read, with what of it was read before.
  std::function<void(std::size_t position)> before_read_;
  // Set: the client would like to cut, and this says of each stream whether it may.
  std::function<bool()> lets_client_cut_;
  // Of each stream.
  std::function<std::uint32_t()> choose_max_message_bytes_ = [] { return 4U << 20; };
  // What a test wants otherwise.
  std::function<void(client::ResumingUpload::Options&)> adjust_upload_;
  std::shared_ptr<grpc::ServerCredentials> credentials_ = grpc::InsecureServerCredentials();
  std::mutex mutex_;
  std::vector<client::ResumingUpload::Lost> lost_;
  std::set<std::string> late_;
  std::atomic<int> resumed_count_ = 0;
  std::size_t sent_ = 0;
  std::size_t completed_ = 0;
  std::unique_ptr<StoringTaker> taker_;
  std::unique_ptr<LosingServer> losing_;
  std::unique_ptr<client::FakeServer> server_;
  std::unique_ptr<Lane> lane_;
};

// What a stream ends with that is lost.
inline const grpc::Status kLost(grpc::StatusCode::UNAVAILABLE, "Socket closed");

}  // namespace kerf::agent
