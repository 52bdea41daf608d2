// The two layouts of a repository: what 0.1.0 has left in Redis, what is made for its first entry,
// what is lost of either, and an old kerfd beside a new one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/strings.h"
#include "base/wait_for.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/expect_counts.h"
#include "server/redis/testing/open_redis.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

using ::testing::HasSubstr;

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};
constexpr int kBaseBits = 2;
constexpr std::uint32_t kBaseCount = 1u << kBaseBits;

IndexEntry Entry(std::uint8_t first, std::uint8_t rest, std::uint32_t length_bytes,
                 const std::string& locator) {
  IndexEntry entry{{}, length_bytes, locator};
  entry.digest.bytes.fill(rest);
  entry.digest.bytes[0] = first;
  return entry;
}

// What the fixture holds, and what it does not.
const IndexEntry kOfEpoch1 = Entry(0x00, 0xAA, 8192, "pack-a");
const IndexEntry kOfEpoch3 = Entry(0x3F, 0xBB, 100, "pack-b");
const IndexEntry kOfEpoch2 = Entry(0x40, 0xCC, 300, "pack-c");
const IndexEntry kBelowSplit = Entry(0x60, 0xDD, 400, "pack-d");
const IndexEntry kInEmpty = Entry(0xC0, 0xEE, 500, "pack-e");
const IndexEntry kWhereOneWent = Entry(0x80, 0xFF, 600, "pack-f");

class RedisLayoutTest : public ::testing::Test {
 protected:
  RedisReply Ask(std::vector<std::string> arguments) {
    auto reply = WaitFor<absl::StatusOr<RedisReply>>([&](auto done) {
      client_->Send({"", std::nullopt, std::move(arguments)}, std::move(done));
    });
    KERF_CHECK(reply.ok());
    EXPECT_NE(reply->kind, RedisReply::Kind::kError) << reply->text;
    return *std::move(reply);
  }
  std::string Meta() const { return MetaKey(tag_); }
  std::string Version() { return Ask({"HGET", Meta(), "version"}).text; }
  std::size_t BucketCount() { return Ask({"KEYS", Cat("k:{", tag_, "*")}).elements.size(); }

  void MakeFirstLayout() {
    std::ifstream file("server/redis/testdata/layout_1.commands");
    std::string line;
    int count = 0;
    while (std::getline(file, line)) {
      if (line.starts_with('#')) continue;
      std::vector<std::string> words;
      for (const auto word : absl::StrSplit(line, ' ')) {
        std::string plain;
        ASSERT_TRUE(absl::CUnescape(word, &plain)) << line;
        words.push_back(std::move(plain));
      }
      Ask(words);
      ++count;
    }
    ASSERT_EQ(count, 7);
  }

  // What kerfd 0.1.0 does to make a repository, or to make what it has found missing of one.
  void DoAsOldKerfd() {
    for (std::uint32_t base = 0; base < kBaseCount; ++base) {
      const std::string key = BucketKey(tag_, base, "");
      if (Ask({"EXISTS", key}).integer == 0) Ask({"HSET", key, "e", std::string("\x01\x00", 2)});
    }
    Ask({"HSET", Meta(), "version", "1", "name", kRepository.name, "digest", "blake3", "base_bits",
         Cat(kBaseBits)});
  }

  std::unique_ptr<RedisIndex> OpenWith(RedisLayout layout) {
    RedisIndexOptions options{redis_.options_of_kerfd()};
    options.base_bits = kBaseBits;
    options.layout = layout;
    std::vector<std::string> warnings;
    return *RedisIndex::Open(std::move(options), &warnings);
  }

  static absl::Status Commit(Index& index, std::uint64_t epoch, const IndexEntry& entry) {
    const std::vector<IndexEntry> entries = {entry};
    return WaitFor(index.Commit(kRepository, epoch, entries, false));
  }
  static ForgetResult Forget(Index& index, const IndexEntry& entry) {
    const std::vector<IndexEntry> entries = {entry};
    const auto forgotten = WaitFor(index.Forget(kRepository, entries));
    EXPECT_TRUE(forgotten.ok()) << forgotten.status();
    return forgotten.ok() ? *forgotten : ForgetResult();
  }
  static Verdict VerdictOf(Index& index, std::uint64_t epoch, const IndexEntry& entry) {
    const std::vector<Digest> digests = {entry.digest};
    std::vector<LookupResult> results(1);
    const absl::Status status = WaitFor(index.Lookup(kRepository, epoch, digests, results));
    EXPECT_TRUE(status.ok()) << status;
    if (results[0].verdict != Verdict::kNew) {
      EXPECT_EQ(results[0].locator, entry.locator);
      EXPECT_EQ(results[0].length_bytes, entry.length_bytes);
    }
    return results[0].verdict;
  }
  static std::uint64_t EpochOf(Index& index) { return WaitFor(index.Stats(kRepository))->epoch; }
  // `before`: the epoch before.
  static void ExpectAdvance(RedisIndex& index, std::uint64_t epoch, std::uint64_t min_before,
                            std::uint64_t before) {
    ExpectEpochBefore(index, WaitFor(index.AdvanceEpoch(kRepository, epoch, min_before)), before,
                      epoch);
  }

  const TestRedis redis_{TestRedis::Kind::kSingle};
  const std::unique_ptr<RedisClient> client_ = *RedisClient::Create(redis_.options());
  const std::string tag_ = RedisTagOf(kRepository);
};

TEST_F(RedisLayoutTest, WhatTheLastReleaseHasLeftIsReadAddedToAndCollected) {
  MakeFirstLayout();
  const auto index = OpenWith(LayoutOfTest());
  for (const IndexEntry& entry : {kOfEpoch1, kOfEpoch2, kOfEpoch3}) {
    EXPECT_EQ(VerdictOf(*index, 3, entry), Verdict::kDuplicate);
    EXPECT_EQ(VerdictOf(*index, 4, entry), Verdict::kUnverified);
  }
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->entry_count, 3u);
  EXPECT_EQ(EpochOf(*index), 3u);
  EXPECT_EQ(WaitFor(index->Scan(kRepository, std::nullopt, 10))->size(), 3u);
  for (const IndexEntry& entry : {kBelowSplit, kInEmpty}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 2, entry)));
    EXPECT_TRUE(Commit(*index, 3, entry).ok());
    EXPECT_EQ(VerdictOf(*index, 3, entry), Verdict::kDuplicate);
  }
  const ForgetResult none = Forget(*index, kWhereOneWent);
  EXPECT_EQ(none.forgotten_count, 0u);
  EXPECT_EQ(none.removed_count, 1u);
  EXPECT_EQ(none.epoch, 3u);
  ExpectAdvance(*index, 4, 3, 3);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 3, kWhereOneWent)));
  ExpectForgotten(*index, Forget(*index, kOfEpoch2), 1);
  const auto older = WaitFor(index->ForgetOlder(kRepository, 2, std::nullopt, 100));
  ExpectForgotten(*index, older->forgotten, 1);
  EXPECT_EQ(older->forgotten.epoch, 4u);
  EXPECT_EQ(VerdictOf(*index, 4, kOfEpoch1), Verdict::kNew);
  EXPECT_EQ(VerdictOf(*index, 4, kOfEpoch3), Verdict::kDuplicate);
  // It stays what 0.1.0 knows: that may go on with it at any time.
  EXPECT_EQ(Version(), "1");
  EXPECT_EQ(Ask({"HLEN", Meta()}).integer, 4);
  EXPECT_EQ(BucketCount(), kBaseCount + 1);
}

TEST_F(RedisLayoutTest, ALostBucketOfTheFirstLayoutHoldsTheEpochBack) {
  MakeFirstLayout();
  const auto index = OpenWith(LayoutOfTest());
  Ask({"DEL", BucketKey(tag_, 3, "")});
  EXPECT_EQ(EpochOf(*index), 0u);
  EXPECT_EQ(Forget(*index, kInEmpty).epoch, 0u);
  ExpectAdvance(*index, 4, 3, 0);
  ASSERT_TRUE(Commit(*index, 3, kInEmpty).ok());
  EXPECT_EQ(VerdictOf(*index, 4, kInEmpty), Verdict::kUnverified);
  ExpectAdvance(*index, 4, 3, 0);
  ExpectAdvance(*index, 4, 0, 0);
  EXPECT_EQ(EpochOf(*index), 4u);
}

TEST_F(RedisLayoutTest, ABucketIsMadeForItsFirstEntry) {
  const auto index = OpenWith(LayoutOfTest());
  EXPECT_EQ(VerdictOf(*index, 1, kInEmpty), Verdict::kNew);
  ExpectAdvance(*index, 3, 0, 0);
  EXPECT_EQ(BucketCount(), 0u);
  EXPECT_EQ(EpochOf(*index), 3u);
  EXPECT_EQ(VerdictOf(*index, 3, kInEmpty), Verdict::kNew);
  // What may not be written makes nothing.
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 2, kInEmpty)));
  EXPECT_EQ(BucketCount(), 0u);
  ASSERT_TRUE(Commit(*index, 3, kInEmpty).ok());
  EXPECT_EQ(BucketCount(), 1u);
  EXPECT_EQ(EpochOf(*index), 3u);
  ExpectAdvance(*index, 4, 3, 3);
  EXPECT_EQ(BucketCount(), 1u);
  // Another one, which reads that from Redis.
  const auto other = OpenWith(LayoutOfTest());
  EXPECT_EQ(VerdictOf(*other, 4, kInEmpty), Verdict::kDuplicate);
  EXPECT_EQ(Forget(*other, kOfEpoch1).epoch, 4u);
  EXPECT_EQ(EpochOf(*other), 4u);
  EXPECT_EQ(WaitFor(other->ForgetOlder(kRepository, 3, std::nullopt, 100))->forgotten.epoch, 4u);
  ExpectAdvance(*other, 4, 4, 4);
}

// None of them is in another's way.
TEST_F(RedisLayoutTest, ManyMakeBucketsAtOnce) {
  constexpr std::uint32_t kCount = 400;
  const auto index = OpenRedisOn(redis_, 0);
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 1, 0)).ok());
  std::vector<std::future<absl::Status>> answers;
  answers.reserve(kCount);
  for (std::uint32_t base = 0; base < kCount; ++base) {
    answers.push_back(std::async(std::launch::async, [&index, base] {
      const std::vector<IndexEntry> entries = {
          {LastOf(kRepository, base, kDefaultBaseBits), 7, "somewhere"}};
      return WaitFor(index->Commit(kRepository, 1, entries, false));
    }));
  }
  for (std::future<absl::Status>& answer : answers) {
    const absl::Status status = answer.get();
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->entry_count, kCount);
  ExpectAdvance(*index, 2, 1, 1);
  // A bit for each, as AdvanceEpoch counts them, too.
  EXPECT_EQ(Ask({"HGET", Meta(), "begun"}).text, std::string(kCount / 8, '\xFF'));
  EXPECT_EQ(Ask({"HGET", Meta(), "told"}).text, std::string(kCount / 8, '\xFF'));
}

// Far ahead of 0, but not of what it has been told.
TEST_F(RedisLayoutTest, AnEpochThatIsLargeIsKnownWithoutABucket) {
  const auto index = OpenWith(LayoutOfTest());
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 40;
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  ExpectAdvance(*index, kFirst, 0, 0);
  ExpectAdvance(*index, kFirst + kStep, kFirst, kFirst);
  EXPECT_EQ(VerdictOf(*index, kFirst + kStep + 1, kInEmpty), Verdict::kNew);
  const std::vector<Digest> digests = {kInEmpty.digest};
  std::vector<LookupResult> results(1);
  EXPECT_TRUE(absl::IsInvalidArgument(
      WaitFor(index->Lookup(kRepository, kFirst + 2 * kStep + 1, digests, results))));
  EXPECT_TRUE(absl::IsInvalidArgument(Commit(*index, kFirst + 2 * kStep + 1, kInEmpty)));
  EXPECT_TRUE(Commit(*index, kFirst + kStep, kInEmpty).ok());
}

// It was there when the epoch was told, so what it held may come back.
TEST_F(RedisLayoutTest, ABucketThatWasToldAndIsLostHoldsTheEpochBack) {
  const auto index = OpenWith(LayoutOfTest());
  ASSERT_TRUE(Commit(*index, 1, kInEmpty).ok());
  ExpectAdvance(*index, 3, 0, 0);
  // With its head, if it has one: of one alone redis_heads_test.cc.
  Ask({"DEL", BucketKey(tag_, 3, ""), HeadKey(tag_, 3)});
  EXPECT_EQ(Forget(*index, kInEmpty).epoch, 0u);
  EXPECT_EQ(EpochOf(*index), 0u);
  EXPECT_EQ(WaitFor(index->ForgetOlder(kRepository, 2, std::nullopt, 100))->forgotten.epoch, 0u);
  ExpectAdvance(*index, 4, 3, 0);
  // A late commit may make it anew; nobody believes it.
  ASSERT_TRUE(Commit(*index, 1, kInEmpty).ok());
  EXPECT_EQ(VerdictOf(*index, 3, kInEmpty), Verdict::kUnverified);
  ExpectAdvance(*index, 4, 3, 0);
  ExpectAdvance(*index, 4, 0, 0);
  EXPECT_EQ(EpochOf(*index), 4u);
}

// Whoever has begun a bucket has died: that is no loss, and nobody comes too late.
TEST_F(RedisLayoutTest, ABucketThatWasBegunAloneHoldsNothingBack) {
  const auto index = OpenWith(LayoutOfTest());
  ExpectAdvance(*index, 3, 0, 0);
  ASSERT_TRUE(Commit(*index, 3, kInEmpty).ok());
  Ask({"DEL", BucketKey(tag_, 3, ""), HeadKey(tag_, 3)});
  EXPECT_EQ(EpochOf(*index), 3u);
  EXPECT_EQ(Forget(*index, kInEmpty).epoch, 3u);
  ExpectAdvance(*index, 4, 3, 3);
  // It was made there, so that it keeps out who would have made it.
  EXPECT_EQ(BucketCount(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 3, kInEmpty)));
  EXPECT_EQ(EpochOf(*index), 4u);
}

// The node that says of a repository which epoch it has is set back, or has lost it.
TEST_F(RedisLayoutTest, ARepositoryThatIsSetBackHoldsTheEpochBack) {
  const auto index = OpenWith(LayoutOfTest());
  ASSERT_TRUE(Commit(*index, 1, kInEmpty).ok());
  ExpectAdvance(*index, 2, 0, 0);
  const std::string old = Ask({"DUMP", Meta()}).text;
  ExpectAdvance(*index, 3, 2, 2);
  Ask({"RESTORE", Meta(), "0", old, "REPLACE"});
  EXPECT_EQ(EpochOf(*index), 2u);
  EXPECT_EQ(Forget(*index, kOfEpoch1).epoch, 2u);
  ExpectAdvance(*index, 4, 3, 2);
  Ask({"DEL", Meta()});
  EXPECT_EQ(EpochOf(*index), 0u);
  EXPECT_EQ(Forget(*index, kOfEpoch1).epoch, 0u);
  ExpectAdvance(*index, 4, 3, 0);
  ExpectAdvance(*index, 4, 0, 0);
  EXPECT_EQ(EpochOf(*index), 4u);
  EXPECT_EQ(VerdictOf(*index, 4, kInEmpty), Verdict::kDuplicate);
}

// What 0.1.0 reads first is the version, and it refuses any but its own.
TEST_F(RedisLayoutTest, ALayoutThatIsNotKnownIsRefused) {
  const auto index = OpenWith(LayoutOfTest());
  ASSERT_TRUE(Commit(*index, 1, kInEmpty).ok());
  EXPECT_EQ(Version(), HasHeads() ? "3" : "2");
  Ask({"HSET", Meta(), "version", "4"});
  const absl::Status refused = Commit(*OpenWith(LayoutOfTest()), 1, kInEmpty);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("of version 4"));
}

TEST_F(RedisLayoutTest, TheWayBackMakesAllBucketsWithTheirEpoch) {
  const auto index = OpenWith(RedisLayout::kLazy);
  ASSERT_TRUE(Commit(*index, 1, kInEmpty).ok());
  ExpectAdvance(*index, 3, 0, 0);
  const auto back = OpenWith(RedisLayout::kWhole);
  EXPECT_EQ(EpochOf(*back), 3u);
  EXPECT_EQ(Version(), "1");
  EXPECT_EQ(BucketCount(), kBaseCount);
  EXPECT_EQ(VerdictOf(*back, 3, kInEmpty), Verdict::kDuplicate);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*back, 2, kOfEpoch1)));
  // One that has known it before goes on with it.
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*index, 2, kOfEpoch1)));
  EXPECT_TRUE(Commit(*index, 3, kOfEpoch1).ok());
  ExpectAdvance(*index, 4, 3, 3);
  ExpectAdvance(*back, 5, 4, 4);
  // What it makes is of the first layout from the start.
  const RepositoryId other{"music", DigestAlgorithm::kBlake3};
  ASSERT_TRUE(WaitFor(back->AdvanceEpoch(other, 1, 0)).ok());
  EXPECT_EQ(Ask({"HGET", MetaKey(RedisTagOf(other)), "version"}).text, "1");
}

// Both have found that there is no repository, and make it; the old one overwrites what the new
// one has said of it.
TEST_F(RedisLayoutTest, AnOldKerfdThatMakesTheSameRepositoryLosesNothing) {
  const auto index = OpenWith(LayoutOfTest());
  ASSERT_TRUE(Commit(*index, 1, kInEmpty).ok());
  DoAsOldKerfd();
  const auto later = OpenWith(LayoutOfTest());
  for (Index* each : {index.get(), later.get()}) {
    EXPECT_EQ(VerdictOf(*each, 1, kInEmpty), Verdict::kDuplicate);
    EXPECT_EQ(EpochOf(*each), 0u);
  }
  ASSERT_TRUE(Commit(*later, 1, kOfEpoch1).ok());
  ExpectAdvance(*index, 2, 0, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(Commit(*later, 1, kWhereOneWent)));
  ExpectAdvance(*later, 3, 2, 2);
  EXPECT_EQ(VerdictOf(*index, 3, kInEmpty), Verdict::kDuplicate);
}

// The same later, as an old kerfd may do that has not heard yet that its Redis was emptied: the
// index counts as one that has gone back, and what the old one let in is believed by nobody.
TEST_F(RedisLayoutTest, AnOldKerfdThatComesLateIsNotBelieved) {
  const auto index = OpenWith(LayoutOfTest());
  ASSERT_TRUE(Commit(*index, 1, kInEmpty).ok());
  ExpectAdvance(*index, 3, 0, 0);
  DoAsOldKerfd();
  EXPECT_EQ(EpochOf(*index), 0u);
  ExpectAdvance(*index, 4, 3, 0);
  ASSERT_TRUE(Commit(*index, 1, kOfEpoch1).ok());
  EXPECT_EQ(VerdictOf(*index, 3, kOfEpoch1), Verdict::kUnverified);
  EXPECT_EQ(VerdictOf(*index, 3, kInEmpty), Verdict::kDuplicate);
  ExpectAdvance(*index, 4, 0, 0);
  EXPECT_EQ(EpochOf(*index), 4u);
}

}  // namespace
}  // namespace kerf
