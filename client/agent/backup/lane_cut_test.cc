// A lane that cuts where the server lets it: whatever its streams meet, what it uploads is the
// same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "client/agent/backup/testing/cutting_server.h"
#include "client/agent/backup/testing/resuming_lane_test.h"

namespace kerf::agent {
namespace {

using ::testing::HasSubstr;

class LaneCutTest : public ResumingLaneTest {
 protected:
  static grpc::Status Stay(Moment /*now*/) { return grpc::Status::OK; }

  // A server that answers what is named to it with these changes.
  static CuttingServer Naming(const std::function<void(v1::Chunks&)>& tell) {
    CuttingServer server;
    v1::Opened& opened = *server.opened.mutable_opened();
    opened.set_cutter(v1::CUTTER_CLIENT);
    opened.mutable_limits()->set_max_named_bytes(1 << 24);
    auto offset = std::make_shared<std::uint64_t>(0);
    server.lie = [tell, offset](const v1::UploadFrame& frame, v1::UploadResponse& response) {
      if (frame.has_file_begin()) *offset = 0;
      if (!frame.has_chunk_digests()) return;
      v1::Chunks& chunks = *response.add_answers()->mutable_chunks();
      chunks.set_file_number(1);
      for (int index = 0; index < frame.chunk_digests().lengths_bytes_size(); ++index) {
        v1::Chunk& chunk = *chunks.add_chunks();
        chunk.set_end_offset(*offset += frame.chunk_digests().lengths_bytes(index));
        chunk.set_digest(
            frame.chunk_digests().digests().substr(32 * static_cast<std::size_t>(index), 32));
        chunk.set_verdict(v1::VERDICT_NEW);
      }
      tell(chunks);
    };
    return server;
  }

  std::vector<std::string> SomeFiles() {
    std::vector<std::string> files;
    const std::uint64_t file_count = 1 + random_.Below(12);
    for (std::uint64_t number = 0; number < file_count; ++number) {
      const std::size_t limits[] = {0, 100, 10'000, 400'000, 1'500'000};
      files.push_back(RandomContent(random_.Below(limits[random_.Below(5)] + 1)));
    }
    return files;
  }
};

TEST_F(LaneCutTest, NoByteOfAFileIsSent) {
  lets_client_cut_ = [] { return true; };
  Start(Stay);
  const std::vector<std::string> files = {RandomContent(3'000'000), "", RandomContent(1),
                                          RandomContent(4096), RandomContent(4097)};
  ASSERT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  EXPECT_EQ(losing_->data_bytes(), 0u);
}

TEST_F(LaneCutTest, AServerThatSaysNothingOfItCuts) {
  lets_client_cut_ = [] { return false; };
  Start(Stay);
  const std::vector<std::string> files = {RandomContent(300'000)};
  ASSERT_TRUE(Upload(files).ok());
  ExpectWhole(files);
  EXPECT_EQ(losing_->data_bytes(), files[0].size());
}

// Streams that are cut here all the time, and by turns at both ends.
TEST_F(LaneCutTest, EveryMomentIsSurvived) {
  for (int moment = 1; moment < kMomentCount; ++moment) {
    for (const int nth : {1, 2, 5}) {
      for (const bool always : {true, false}) {
        SCOPED_TRACE(Cat("moment ", moment, ", time ", nth, ", always ", always));
        Reset();
        std::atomic<int> stream = nth;
        lets_client_cut_ = [&, always] { return always || ++stream % 2 == 0; };
        std::atomic<int> count = 0;
        Start([&, moment, nth](Moment now) {
          if (static_cast<int>(now) != moment) return grpc::Status::OK;
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
}

TEST_F(LaneCutTest, RandomLossesChangeNothing) {
  for (int round = 0; round < kRandomRounds; ++round) {
    Reset();
    const std::vector<std::string> files = SomeFiles();
    std::mutex mutex;
    Random chances(random_.Next());
    choose_max_message_bytes_ = [&] {
      const std::lock_guard lock(mutex);
      const std::uint32_t limits[] = {8U << 10, 64U << 10, 4U << 20};
      return limits[chances.Below(3)];
    };
    const std::uint64_t rarity = 8 + random_.Below(40);
    bool opened = false;
    lets_client_cut_ = [&] {
      const std::lock_guard lock(mutex);
      return chances.OneIn(2);
    };
    Start([&](Moment now) {
      const std::lock_guard lock(mutex);
      opened = opened || now == Moment::kOpened;
      return opened && chances.OneIn(rarity) ? kLost : grpc::Status::OK;
    });
    const absl::Status status = Upload(files);
    ASSERT_TRUE(status.ok()) << status << ", round " << round << ", seed " << seed_;
    ExpectWhole(files);
    if (HasFailure()) break;
  }
}

// Nobody else compares the answers with the bytes.
TEST_F(LaneCutTest, AnAnswerOfAnotherChunkEndsIt) {
  struct Lie {
    const char* what;
    void (*tell)(v1::Chunks&);
  };
  const Lie lies[] = {
      {"digest",
       [](v1::Chunks& chunks) { (*chunks.mutable_chunks(0)->mutable_digest())[31] ^= 1; }},
      {"end", [](v1::Chunks& chunks) { chunks.mutable_chunks(0)->set_end_offset(4095); }},
      {"order", [](v1::Chunks& chunks) { chunks.mutable_chunks()->SwapElements(0, 1); }},
      {"file", [](v1::Chunks& chunks) { chunks.set_file_number(7); }},
      {"more", [](v1::Chunks& chunks) { *chunks.add_chunks() = chunks.chunks(0); }},
  };
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.what);
    const client::FakeServer fake(Naming(lie.tell));
    Lane::Options options;
    options.upload.servers = {fake.address()};
    options.upload.stream.open.set_profile(kServersRule);
    options.upload.stream.open.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    options.upload.stream.open.set_cutter(v1::CUTTER_CLIENT);
    options.profile = *ParseProfile(kServersRule);
    StoringTaker taker;
    Lane lane(std::move(options), taker);
    const std::string content = RandomContent(40'000);
    bool is_read = false;
    const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
      if (std::exchange(is_read, true)) return std::size_t{0};
      std::memcpy(span.data(), content.data(), content.size());
      return content.size();
    };
    absl::Status read_status;
    absl::Status status = lane.SendFile("file", 0, read, [](const FileOutcome&) {}, read_status);
    if (status.ok()) status = lane.WaitAnswered();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("not named"));
    EXPECT_EQ(taker.taken_count, 0u);
  }
}

// Memory that is broken: what is cut anew of it would be named by digests of what it is by then.
TEST_F(LaneCutTest, WhatHasChangedWhileItWaitedIsNotNamedAgain) {
  constexpr std::size_t kFileBytes = 5'000;
  for (const bool is_named_again : {true, false}) {
    SCOPED_TRACE(is_named_again);
    Reset();
    std::uint8_t* kept = nullptr;
    adjust_upload_ = [&](client::ResumingUpload::Options& upload) {
      upload.on_lost = [&](const client::ResumingUpload::Lost& /*lost*/) { *kept ^= 1; };
    };
    std::atomic<int> stream_count = 0;
    lets_client_cut_ = [&, is_named_again] { return ++stream_count == 1 || is_named_again; };
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
    const auto ignore = [](const FileOutcome& /*outcome*/) {};
    absl::Status status = lane_->SendFile("file", 0, read, ignore, read_status);
    if (status.ok()) status = lane_->WaitAnswered();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("are not those that were read"));
    EXPECT_EQ(taker_->taken_count, 0u);
    End();
  }
}

// Of a profile that could have small chunks little is kept unanswered: what is named is sent before
// room is waited for, though a message could name more.
TEST_F(LaneCutTest, WhatIsNamedMakesRoom) {
  const std::string profile = "fastcdc2020:min=64,avg=16384,max=65536,level=1";
  const client::FakeServer fake(Naming([](v1::Chunks& /*chunks*/) {}));
  Lane::Options options;
  options.upload.servers = {fake.address()};
  options.upload.stream.open.set_profile(profile);
  options.upload.stream.open.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  options.upload.stream.open.set_cutter(v1::CUTTER_CLIENT);
  options.profile = *ParseProfile(profile);
  EXPECT_LE(Lane::MaxBlocks(options.profile), 4u);
  StoringTaker taker;
  options.on_pressure = [&] { return taker.Send(); };
  Lane lane(std::move(options), taker);
  const std::string content = RandomContent(9'000'000);
  std::size_t position = 0;
  // Blocks are not filled to their last byte: they run out before bytes do.
  const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
    const std::size_t count =
        std::min({span.size(), content.size() - position, std::size_t{9'000}});
    std::memcpy(span.data(), content.data() + position, count);
    position += count;
    return count;
  };
  std::uint64_t content_bytes = 0;
  absl::Status read_status;
  ASSERT_TRUE(lane.SendFile(
                      "file", 0, read,
                      [&](const FileOutcome& outcome) { content_bytes = outcome.content_bytes; },
                      read_status)
                  .ok());
  ASSERT_TRUE(lane.WaitAnswered().ok());
  EXPECT_EQ(content_bytes, content.size());
}

TEST_F(LaneCutTest, NoMessageNamesMoreThanTheServerTakes) {
  for (const std::uint32_t limit : {8u << 10, 20'000u, 4u << 20}) {
    SCOPED_TRACE(limit);
    CuttingServer server = Naming([](v1::Chunks& /*chunks*/) {});
    server.opened.mutable_opened()->mutable_limits()->set_max_message_bytes(limit);
    std::size_t longest = 0;
    server.on_message = [&](const v1::UploadRequest& request) {
      if (request.frames().empty() || request.frames(0).has_open()) return;
      longest = std::max(longest, EncodedBytes(request));
    };
    const client::FakeServer fake(server);
    Lane::Options options;
    options.upload.servers = {fake.address()};
    // Two megabytes are named by thousands of chunks.
    options.upload.stream.open.set_profile("fixed:size=256");
    options.upload.stream.open.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    options.upload.stream.open.set_cutter(v1::CUTTER_CLIENT);
    options.profile = *ParseProfile("fixed:size=256");
    StoringTaker taker;
    options.on_pressure = [&] { return taker.Send(); };
    Lane lane(std::move(options), taker);
    const std::string content = RandomContent(2'000'000);
    std::size_t position = 0;
    const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
      const std::size_t count = std::min(span.size(), content.size() - position);
      std::memcpy(span.data(), content.data() + position, count);
      position += count;
      return count;
    };
    absl::Status read_status;
    ASSERT_TRUE(
        lane.SendFile("file", 0, read, [](const FileOutcome& /*outcome*/) {}, read_status).ok());
    ASSERT_TRUE(lane.WaitAnswered().ok());
    EXPECT_EQ(taker.taken_count, (content.size() + 255) / 256);
    EXPECT_LE(longest, limit);
    if (limit < 64u << 10) {
      EXPECT_GT(longest, limit / 2);
    }
  }
}

// It would be asked to cut by who knows what.
TEST_F(LaneCutTest, AServerThatWantsNamesUnaskedEndsIt) {
  CuttingServer server;
  server.opened.mutable_opened()->set_cutter(v1::CUTTER_CLIENT);
  client::FakeServer fake(server);
  Lane::Options options;
  options.upload.servers = {fake.address()};
  options.upload.stream.open.set_profile(kProfile);
  options.profile = *ParseProfile(kProfile);
  StoringTaker taker;
  Lane lane(std::move(options), taker);
  EXPECT_EQ(lane.WaitOpened(std::chrono::seconds(60)).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace kerf::agent
