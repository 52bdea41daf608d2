// Commits that are sent late, to an index that takes its time.
#include "client/agent/backup/late_commits.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/retry.h"
#include "client/cpp/testing/fake_server.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

class LateCommitsTest : public testing::Test {
 protected:
  LateCommitsTest() {
    const ChunkRef chunk = RefOf(kContent);
    entry_.set_digest(chunk.digest.bytes.data(), chunk.digest.bytes.size());
    entry_.set_locator("its place");
  }

  // What is said in the end of a commit that `send` does not write in time.
  absl::Status TooLate(LateCommits::Send send) {
    const client::RetryLimits retry{.first_wait = std::chrono::milliseconds(1)};
    LateCommits commits(LengthAt, retry, 1, std::move(send), std::chrono::milliseconds(250));
    commits.Add({entry_});
    return commits.Finish();
  }

  // The store has one chunk, at one place.
  static std::optional<std::uint32_t> LengthAt(const Digest& digest, std::string_view locator) {
    if (digest != RefOf(kContent).digest || locator != "its place") return std::nullopt;
    return RefOf(kContent).length_bytes;
  }

  static constexpr char kContent[] = "what is committed late";
  v1::CommitEntry entry_;
};

constexpr char kTooLate[] = "commits whose stream was lost could not be sent again within 0.25 s: ";

TEST_F(LateCommitsTest, AServerThatSaysNothingIsSaidToSayNothing) {
  const absl::Status status =
      TooLate([](std::span<const StoredChunk>, client::CallCancellation& cancellation) {
        while (!cancellation.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return absl::CancelledError("so I was told");
      });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(MessageOf(status), Cat(kTooLate, "the server does not answer"));
}

TEST_F(LateCommitsTest, OneThatRefusesIsQuoted) {
  const absl::Status status = TooLate([](std::span<const StoredChunk>, client::CallCancellation&) {
    return client::WithRequestId(absl::UnavailableError("all are gone"), "the-call");
  });
  EXPECT_EQ(MessageOf(status), Cat(kTooLate, "all are gone"));
  EXPECT_EQ(client::RequestIdOf(status), "the-call");
}

absl::Status Refused(grpc::StatusCode code, const std::string& reason) {
  return client::FromGrpc(client::FakeServer::Refusal(code, reason));
}

TEST_F(LateCommitsTest, TheReasonOfTheLastTryIsKnown) {
  const absl::Status status = TooLate([](std::span<const StoredChunk>, client::CallCancellation&) {
    return Refused(grpc::StatusCode::UNAVAILABLE, "INDEX_UNAVAILABLE");
  });
  EXPECT_EQ(client::ReasonOfCall(status), "INDEX_UNAVAILABLE");
}

// What a server said of chunks that it has taken since is not why others are late.
TEST_F(LateCommitsTest, AnErrorThatIsOverIsNotQuoted) {
  const client::RetryLimits retry{.first_wait = std::chrono::milliseconds(1)};
  std::atomic<int> told = 0;
  LateCommits commits(
      LengthAt, retry, 1,
      [&told](std::span<const StoredChunk>, client::CallCancellation& cancellation) {
        const int count = ++told;
        if (count == 1) return Refused(grpc::StatusCode::UNAVAILABLE, "INDEX_UNAVAILABLE");
        while (count > 2 && !cancellation.cancelled()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return absl::OkStatus();
      },
      std::chrono::milliseconds(250));
  commits.Add({entry_});
  while (told < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  commits.Add({entry_});
  const absl::Status status = commits.Finish();
  EXPECT_EQ(MessageOf(status), Cat(kTooLate, "the server does not answer"));
  EXPECT_EQ(client::ReasonOfCall(status), "");
}

TEST_F(LateCommitsTest, WhyTooManyWaitedIsKnown) {
  const client::RetryLimits retry{.first_wait = std::chrono::milliseconds(1)};
  std::atomic<int> told = 0;
  std::atomic<bool> is_back = false;
  LateCommits commits(LengthAt, retry, 1,
                      [&](std::span<const StoredChunk>, client::CallCancellation&) {
                        ++told;
                        if (is_back) return absl::OkStatus();
                        return Refused(grpc::StatusCode::UNAVAILABLE, "INDEX_UNAVAILABLE");
                      });
  commits.Add({entry_});
  // By the second try the first one's error is known.
  while (told < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  commits.Add(std::vector<v1::CommitEntry>(LateCommits::kMaxWaiting + 1, entry_));
  is_back = true;
  const absl::Status status = commits.Finish();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(client::ReasonOfCall(status), "INDEX_UNAVAILABLE");
}

// A slow server, or a front before it: what it was told may be written, or not.
TEST_F(LateCommitsTest, WhatWasNotAnsweredInTimeIsToldAgain) {
  const client::RetryLimits retry{.first_wait = std::chrono::milliseconds(1)};
  std::vector<std::size_t> told;
  LateCommits commits(LengthAt, retry, 1,
                      [&told](std::span<const StoredChunk> chunks, client::CallCancellation&) {
                        told.push_back(chunks.size());
                        return told.size() < 3 ? absl::DeadlineExceededError("Deadline Exceeded")
                                               : absl::OkStatus();
                      });
  commits.Add({entry_});
  const absl::Status status = commits.Finish();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(told, (std::vector<std::size_t>{1, 1, 1}));
}

// As a collection refuses it that came meanwhile: the session's epoch is over.
TEST_F(LateCommitsTest, WhatIsRefusedIsNotToldAgain) {
  int count = 0;
  LateCommits commits(LengthAt, client::RetryLimits(), 1,
                      [&count](std::span<const StoredChunk>, client::CallCancellation&) {
                        ++count;
                        return absl::FailedPreconditionError("the epoch lies behind");
                      });
  commits.Add({entry_});
  EXPECT_TRUE(absl::IsFailedPrecondition(commits.Finish()));
  EXPECT_EQ(count, 1);
}

// A pack that is gone, say: nothing is told of it.
TEST_F(LateCommitsTest, WhatIsNotThereIsNotTold) {
  std::vector<std::uint32_t> lengths;
  LateCommits commits(LengthAt, client::RetryLimits(), 1,
                      [&](std::span<const StoredChunk> chunks, client::CallCancellation&) {
                        for (const StoredChunk& chunk : chunks) {
                          lengths.push_back(chunk.length_bytes);
                        }
                        return absl::OkStatus();
                      });
  v1::CommitEntry elsewhere = entry_;
  elsewhere.set_locator("another place");
  commits.Add({elsewhere, entry_});
  EXPECT_TRUE(commits.Finish().ok());
  EXPECT_EQ(lengths, std::vector<std::uint32_t>{RefOf(kContent).length_bytes});
}

}  // namespace
}  // namespace kerf::agent
