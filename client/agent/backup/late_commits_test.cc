// Commits that are sent late, to an index that takes its time.
#include "client/agent/backup/late_commits.h"

#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/strings.h"
#include "client/cpp/failed_call.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

class LateCommitsTest : public testing::Test {
 protected:
  LateCommitsTest() {
    const std::string content = "what is committed late";
    store_.WritePack({content});
    EXPECT_TRUE(index_.Refresh().ok());
    const ChunkRef chunk = RefOf(content);
    entry_.set_digest(chunk.digest.bytes.data(), chunk.digest.bytes.size());
  }

  // What is said in the end of a commit that `send` does not write in time.
  absl::Status TooLate(LateCommits::Send send) {
    const client::RetryLimits retry{.first_wait = std::chrono::milliseconds(1)};
    LateCommits commits(index_, retry, 1, std::move(send), std::chrono::milliseconds(250));
    commits.Add({entry_});
    return commits.Finish();
  }

  TestStore store_;
  ChunkIndex index_{store_.store().packs_directory(), SeenPacks::kAreDurable};
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

}  // namespace
}  // namespace kerf::agent
