#include "client/lab/bench/answer_check.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"
#include "base/test_seed.h"

namespace kerf::bench {
namespace {

constexpr std::size_t kDigestBytes = 32;

class AnswerCheckTest : public ::testing::Test {
 protected:
  AnswerCheckTest() {
    Random random(TestSeed());
    std::vector<std::uint8_t> file(200'000);
    random.Fill(file);
    expected_ =
        CutAndHash(*MakeChunker(*ParseProfile("fastcdc2020-8k")), DigestAlgorithm::kBlake3, file);
    AddChecks(file, expected_);
  }

  // As a server answers that is right.
  v1::Chunks Answer(std::size_t begin, std::size_t end) const {
    v1::Chunks chunks;
    chunks.set_file_number(1);
    for (std::size_t index = begin; index < end; ++index) {
      v1::Chunk& chunk = *chunks.add_chunks();
      chunk.set_end_offset(expected_[index].end_offset);
      chunk.set_digest(expected_[index].digest.bytes.data(), kDigestBytes);
      chunk.set_verdict(index % 2 == 0 ? v1::VERDICT_NEW : v1::VERDICT_DUPLICATE);
      chunk.set_check(expected_[index].check);
    }
    return chunks;
  }

  v1::FileDone Done() const {
    v1::FileDone done;
    done.set_file_number(1);
    done.set_size_bytes(200'000);
    done.set_chunk_count(expected_.size());
    done.set_new_chunk_count((expected_.size() + 1) / 2);
    return done;
  }

  LocalChunks expected_;
};

TEST_F(AnswerCheckTest, TakesWhatIsRight) {
  ASSERT_GT(expected_.size(), 4u);
  ASSERT_NE(expected_[0].check, 0u);
  AnswerCheck check(expected_, kDigestBytes, BytesCheck::kAnswered);
  EXPECT_TRUE(check.Take(Answer(0, 3)).ok());
  EXPECT_EQ(check.new_positions().size(), 2u);
  check.ForgetNew(1);
  ASSERT_EQ(check.new_positions().size(), 1u);
  EXPECT_EQ(check.new_positions()[0], 2u);
  EXPECT_FALSE(check.has_all());
  EXPECT_TRUE(check.Take(Answer(3, expected_.size())).ok());
  EXPECT_TRUE(check.has_all());
  EXPECT_EQ(check.duplicate_count(), expected_.size() / 2);
  EXPECT_FALSE(check.is_done());
  EXPECT_TRUE(check.TakeDone(Done()).ok());
  EXPECT_TRUE(check.is_done());
}

TEST_F(AnswerCheckTest, FindsEveryWrongAnswer) {
  const std::vector<std::function<void(v1::Chunks&)>> mistakes = {
      [](v1::Chunks& chunks) { chunks.set_file_number(2); },
      [](v1::Chunks& chunks) {
        chunks.mutable_chunks(2)->set_end_offset(chunks.chunks(2).end_offset() + 1);
      },
      [](v1::Chunks& chunks) { (*chunks.mutable_chunks(2)->mutable_digest())[31] ^= 1; },
      [](v1::Chunks& chunks) { chunks.mutable_chunks(2)->mutable_digest()->pop_back(); },
      [](v1::Chunks& chunks) { chunks.mutable_chunks(2)->set_check(chunks.chunks(2).check() ^ 1); },
      [](v1::Chunks& chunks) { chunks.mutable_chunks()->SwapElements(1, 2); },
      [](v1::Chunks& chunks) { chunks.mutable_chunks()->DeleteSubrange(1, 1); },
      [](v1::Chunks& chunks) { *chunks.add_chunks() = chunks.chunks(0); },
  };
  for (std::size_t index = 0; index < mistakes.size(); ++index) {
    v1::Chunks chunks = Answer(0, expected_.size());
    mistakes[index](chunks);
    AnswerCheck check(expected_, kDigestBytes, BytesCheck::kAnswered);
    EXPECT_EQ(check.Take(chunks).code(), absl::StatusCode::kDataLoss) << index;
  }
}

TEST_F(AnswerCheckTest, FindsAWrongSummary) {
  const std::vector<std::function<void(v1::FileDone&)>> mistakes = {
      [](v1::FileDone& done) { done.set_file_number(2); },
      [](v1::FileDone& done) { done.set_size_bytes(1); },
      [](v1::FileDone& done) { done.set_chunk_count(1); },
      [](v1::FileDone& done) { done.set_new_chunk_count(0); },
  };
  for (std::size_t index = 0; index < mistakes.size(); ++index) {
    AnswerCheck check(expected_, kDigestBytes, BytesCheck::kAnswered);
    ASSERT_TRUE(check.Take(Answer(0, expected_.size())).ok());
    v1::FileDone done = Done();
    mistakes[index](done);
    EXPECT_EQ(check.TakeDone(done).code(), absl::StatusCode::kDataLoss) << index;
  }
  AnswerCheck early(expected_, kDigestBytes, BytesCheck::kAnswered);
  ASSERT_TRUE(early.Take(Answer(0, expected_.size() - 1)).ok());
  EXPECT_EQ(early.TakeDone(Done()).code(), absl::StatusCode::kDataLoss);
}

TEST_F(AnswerCheckTest, AnEmptyFileHasNoChunks) {
  AnswerCheck check({}, kDigestBytes, BytesCheck::kAnswered);
  EXPECT_TRUE(check.has_all());
  v1::FileDone done;
  done.set_file_number(1);
  EXPECT_TRUE(check.TakeDone(done).ok());
}

TEST_F(AnswerCheckTest, WhoHasNotSeenBytesHasNoCheckOfThem) {
  v1::Chunks answer = Answer(0, expected_.size());
  EXPECT_FALSE(AnswerCheck(expected_, kDigestBytes, BytesCheck::kNone).Take(answer).ok());
  for (v1::Chunk& chunk : *answer.mutable_chunks()) chunk.set_check(0);
  EXPECT_TRUE(AnswerCheck(expected_, kDigestBytes, BytesCheck::kNone).Take(answer).ok());
  EXPECT_FALSE(AnswerCheck(expected_, kDigestBytes, BytesCheck::kAnswered).Take(answer).ok());
}

}  // namespace
}  // namespace kerf::bench
