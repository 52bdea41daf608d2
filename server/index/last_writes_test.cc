#include "server/index/last_writes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"

namespace kerf {
namespace {

Digest DigestOf(std::uint8_t first, std::uint8_t last) {
  Digest digest;
  digest.bytes.front() = first;
  digest.bytes.back() = last;
  return digest;
}

void Note(LastWrites& writes, const Digest& digest) {
  const IndexEntry entry{digest, 1, "a"};
  const IndexEntry* const written = &entry;
  writes.Note({&written, 1});
}

TEST(LastWritesTest, WhatIsWrittenIsNotBelievedFromBefore) {
  LastWrites writes;
  const Digest digest = DigestOf(1, 1);
  const std::uint64_t before = writes.Now();
  EXPECT_TRUE(writes.IsUnwrittenSince(digest, before));
  Note(writes, digest);
  EXPECT_FALSE(writes.IsUnwrittenSince(digest, before));
  // Who has looked since has seen what there is, and perhaps it was forgotten.
  const std::uint64_t behind = writes.Now();
  EXPECT_TRUE(writes.IsUnwrittenSince(digest, behind));
}

TEST(LastWritesTest, OthersAreUnwritten) {
  LastWrites writes;
  const std::uint64_t before = writes.Now();
  Note(writes, DigestOf(1, 1));
  EXPECT_TRUE(writes.IsUnwrittenSince(DigestOf(2, 1), before));
  // One that begins alike is taken for it.
  EXPECT_FALSE(writes.IsUnwrittenSince(DigestOf(1, 2), before));
}

TEST(LastWritesTest, WithoutALookNothingIsBelieved) {
  const LastWrites writes;
  EXPECT_FALSE(writes.IsUnwrittenSince(DigestOf(1, 1), 0));
}

TEST(LastWritesTest, NothingIsBelievedOfAnIndexThatIsGone) {
  std::uint64_t of_the_first = 0;
  {
    LastWrites first;
    Note(first, DigestOf(1, 1));
    of_the_first = first.Now();
  }
  const LastWrites second;
  EXPECT_FALSE(second.IsUnwrittenSince(DigestOf(1, 1), of_the_first));
  EXPECT_FALSE(second.IsUnwrittenSince(DigestOf(2, 1), of_the_first));
  EXPECT_TRUE(second.IsUnwrittenSince(DigestOf(1, 1), second.Now()));
}

TEST(LastWritesTest, BehindAWriteThatFailedNothingIsBelieved) {
  LastWrites writes;
  const std::uint64_t before = writes.Now();
  writes.DisbelieveAll();
  EXPECT_FALSE(writes.IsUnwrittenSince(DigestOf(1, 1), before));
  EXPECT_FALSE(writes.IsUnwrittenSince(DigestOf(1, 1), writes.Now()));
}

TEST(LastWritesTest, APartIsOfTheFirstBits) {
  for (int first = 0; first < 256; ++first) {
    const std::size_t part = LastWrites::PartOf(DigestOf(static_cast<std::uint8_t>(first), 1));
    EXPECT_EQ(part, static_cast<std::size_t>(first) * LastWrites::kPartCount / 256);
  }
}

// Each digest is written once: by the first who finds that it is not there. Readers take no lock,
// and the writer looks again only where it must.
TEST(LastWritesTest, NothingIsWrittenTwice) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kDigests = 2000;
  LastWrites writes;
  std::array<std::mutex, LastWrites::kPartCount> parts;
  std::vector<std::atomic<int>> held(kDigests);
  std::atomic<std::uint64_t> saved_count{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Random random(TestSeed() + thread);
      for (std::size_t round = 0; round < 2 * kDigests; ++round) {
        // All of them are in the same place at about the same time.
        const std::size_t number = (round + random.Below(8)) % kDigests;
        Digest digest;
        digest.bytes[0] = static_cast<std::uint8_t>(number);
        digest.bytes[1] = static_cast<std::uint8_t>(number >> 8);
        const std::uint64_t now = writes.Now();
        if (held[number].load(std::memory_order_acquire) != 0) continue;
        const std::lock_guard lock(parts[LastWrites::PartOf(digest)]);
        if (writes.IsUnwrittenSince(digest, now)) {
          ++saved_count;
        } else if (held[number].load(std::memory_order_acquire) != 0) {
          continue;
        }
        EXPECT_EQ(held[number].fetch_add(1, std::memory_order_release), 0);
        Note(writes, digest);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t number = 0; number < kDigests; ++number) EXPECT_LE(held[number].load(), 1);
  EXPECT_GT(saved_count.load(), 0u);
}

}  // namespace
}  // namespace kerf
