#include "client/agent/backup/digest_check.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"

namespace kerf::agent {
namespace {

using Bytes = std::vector<std::uint8_t>;

class DigestCheckTest : public testing::TestWithParam<DigestAlgorithm> {
 protected:
  Bytes Chunk(std::size_t size) {
    Bytes bytes(size);
    random_.Fill(bytes);
    return bytes;
  }
  Digest DigestOf(const Bytes& bytes) const { return Fingerprint(GetParam(), bytes); }

  Random random_{TestSeed()};
};

TEST_P(DigestCheckTest, WhatHasItsDigestPasses) {
  DigestCheck check(GetParam());
  EXPECT_TRUE(check.Finish().ok());
  for (int round = 0; round < 3; ++round) {
    for (int number = 0; number < 400; ++number) {
      const Bytes chunk = Chunk(random_.OneIn(30) ? 100'000 : random_.Between(1, 20'000));
      ASSERT_TRUE(check.Add(DigestOf(chunk), chunk).ok());
    }
    EXPECT_TRUE(check.Finish().ok());
  }
}

// Wherever among the others it comes, small or large, and if it is the very last.
TEST_P(DigestCheckTest, OneThatHasNotIsFoundAmongAll) {
  for (int round = 0; round < 60; ++round) {
    DigestCheck check(GetParam());
    const std::uint64_t count = random_.Between(1, 150);
    const std::uint64_t wrong = random_.Below(count);
    for (std::uint64_t number = 0; number < count; ++number) {
      Bytes chunk = Chunk(random_.OneIn(20) ? 70'000 : random_.Between(1, 12'000));
      const Digest digest = DigestOf(chunk);
      if (number == wrong) chunk[random_.Below(chunk.size())] ^= 1;
      // It may be said at once, or later.
      if (!check.Add(digest, chunk).ok()) {
        EXPECT_GE(number, wrong);
      }
    }
    EXPECT_TRUE(absl::IsDataLoss(check.Finish()));
    // For good.
    const Bytes chunk = Chunk(10);
    EXPECT_TRUE(absl::IsDataLoss(check.Add(DigestOf(chunk), chunk)));
    EXPECT_TRUE(absl::IsDataLoss(check.Finish()));
  }
}

// What a thread has added before it calls Finish is looked at by then, whoever hashes it.
TEST_P(DigestCheckTest, ManyThreadsAtOnce) {
  for (const bool has_wrong : {false, true}) {
    DigestCheck check(GetParam());
    std::vector<Bytes> chunks;
    std::vector<Digest> digests;
    for (int number = 0; number < 500; ++number) {
      chunks.push_back(Chunk(random_.Between(1, 9000)));
      digests.push_back(DigestOf(chunks.back()));
    }
    std::atomic<int> wrong_count = 0;
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (std::size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t index = thread; index < chunks.size(); index += 4) {
          Digest digest = digests[index];
          if (has_wrong && index == 499) digest.bytes[0] ^= 1;
          static_cast<void>(check.Add(digest, chunks[index]));
        }
        // Of the thread that has added it.
        if (!check.Finish().ok() && thread == 499 % 4) ++wrong_count;
      });
    }
    threads.clear();
    EXPECT_EQ(wrong_count, has_wrong ? 1 : 0);
  }
}

// Another thread has begun to hash it, and is at it.
TEST_P(DigestCheckTest, FinishWaitsForWhatAnotherThreadHashes) {
  const Bytes chunk = Chunk(60'000);
  const Digest digest = DigestOf(chunk);
  Digest unlike = digest;
  unlike.bytes[3] ^= 1;
  for (int round = 0; round < 300; ++round) {
    DigestCheck check(GetParam());
    ASSERT_TRUE(check.Add(unlike, chunk).ok());
    for (int number = 0; number < 6; ++number) ASSERT_TRUE(check.Add(digest, chunk).ok());
    std::atomic<bool> begins = false;
    std::jthread other([&] {
      begins = true;
      static_cast<void>(check.Add(digest, chunk));
    });
    while (!begins) {
    }
    for (int spin = 0; spin < round * 20; ++spin)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    EXPECT_TRUE(absl::IsDataLoss(check.Finish()));
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, DigestCheckTest,
                         testing::Values(DigestAlgorithm::kBlake3, DigestAlgorithm::kXxh3_128));

}  // namespace
}  // namespace kerf::agent
