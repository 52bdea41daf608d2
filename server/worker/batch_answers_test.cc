#include "server/worker/batch_answers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"
#include "server/session/session.h"
#include "server/session/session_limits.h"

namespace kerf {
namespace {

LookupResult NewAt(std::uint64_t moment) {
  LookupResult result;
  result.absent_at = moment;
  return result;
}

constexpr std::uint32_t kLengthBytes = 10;

Digest DigestOf(std::uint8_t value) {
  Digest digest;
  digest.bytes.fill(value);
  return digest;
}

class BatchAnswersTest : public testing::Test {
 protected:
  void SetUp() override {
    v1::Open open;
    open.set_repository("home");
    open.set_profile("fastcdc2020-8k");
    open.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    open.set_store_epoch(1);
    ASSERT_TRUE(session_.Open(open).ok());
    ASSERT_TRUE(session_.BeginFile({}).ok());
    ASSERT_TRUE(session_.AddData(std::uint64_t{100} * kLengthBytes).ok());
  }

  // The next chunk, which the index has answered like this.
  void Answer(std::uint8_t value, LookupResult result) {
    BatchAnswers batch(&session_, &encoded_);
    end_offset_ += kLengthBytes;
    const Digest digest = DigestOf(value);
    ASSERT_TRUE(batch.Add(1, end_offset_, kLengthBytes, digest, 0, &result).ok());
    batch.Finish(nullptr);
  }
  // What a commit of it tells the index.
  std::uint64_t CommittedAbsentAt(std::uint8_t value) const {
    v1::Commit commit;
    v1::CommitEntry& entry = *commit.add_entries();
    entry.set_digest(std::string(32, static_cast<char>(value)));
    entry.set_locator("pack");
    const auto plan = session_.PlanCommit(commit);
    if (!plan.ok() || plan->entries.size() != 1) return UINT64_MAX;
    return plan->entries[0].absent_at;
  }

  Session session_{SessionLimits{}};
  std::string encoded_;
  std::uint64_t end_offset_ = 0;
};

TEST_F(BatchAnswersTest, ACommitTellsTheIndexWhenItsLookupSawNothing) {
  Answer(1, NewAt(7));
  Answer(2, NewAt(9));
  EXPECT_EQ(CommittedAbsentAt(1), 7u);
  EXPECT_EQ(CommittedAbsentAt(2), 9u);
  // A chunk that is there twice: either lookup has seen nothing.
  Answer(1, NewAt(11));
  EXPECT_EQ(CommittedAbsentAt(1), 11u);
}

// It is answered NEW, and has an entry that the commit must find.
TEST_F(BatchAnswersTest, AnEntryOfAnotherLengthWasSeen) {
  Answer(1, {.verdict = Verdict::kDuplicate, .length_bytes = kLengthBytes + 1, .locator = "here"});
  EXPECT_EQ(CommittedAbsentAt(1), 0u);
}

TEST_F(BatchAnswersTest, WhatIsNotBelievedWasSeen) {
  Answer(1, {.verdict = Verdict::kUnverified, .length_bytes = kLengthBytes, .locator = "here"});
  EXPECT_EQ(CommittedAbsentAt(1), 0u);
}

}  // namespace
}  // namespace kerf
