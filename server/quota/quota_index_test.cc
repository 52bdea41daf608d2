#include "server/quota/quota_index.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/wait_for.h"
#include "server/errors/errors.h"
#include "server/index/memory_index.h"
#include "server/quota/testing/rules_gate.h"

namespace kerf {
namespace {

const RepositoryId kTight{"tight", DigestAlgorithm::kBlake3};
const RepositoryId kWide{"wide", DigestAlgorithm::kBlake3};
constexpr char kRules[] = "[[repository]]\nname = \"tight\"\nmax_entries = 10\n";

class CountingIndex final : public ForwardingIndex {
 public:
  CountingIndex() : ForwardingIndex(CreateMemoryIndex()) {}
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override {
    ++stats_count;
    if (!failure.ok()) return absl::StatusOr<IndexStats>(failure);
    return ForwardingIndex::Stats(repository);
  }
  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    ++lookup_count;
    return ForwardingIndex::Lookup(repository, session_epoch, digests, results);
  }
  bool is_remote() const override { return is_shared; }
  int stats_count = 0;
  int lookup_count = 0;
  bool is_shared = false;
  absl::Status failure;
};

// `count` entries whose digests are first, first + 1, ...
std::vector<IndexEntry> Entries(int first, int count, const std::string& locator = "here") {
  std::vector<IndexEntry> entries;
  for (int number = first; number < first + count; ++number) {
    IndexEntry entry;
    entry.length_bytes = 4096;
    entry.locator = locator;
    entry.digest.bytes[0] = static_cast<std::uint8_t>(number);
    entry.digest.bytes[1] = static_cast<std::uint8_t>(number >> 8);
    entries.push_back(entry);
  }
  return entries;
}

class QuotaIndexTest : public ::testing::Test {
 protected:
  std::string Commit(const std::vector<IndexEntry>& entries, const RepositoryId& id = kTight,
                     bool replace = false) {
    const absl::Status status = WaitFor(index_.Commit(id, 1, entries, replace));
    return status.ok() ? "OK" : ReasonNameOf(status);
  }
  std::uint64_t CountOf(const RepositoryId& id) { return WaitFor(memory_.Stats(id))->entry_count; }

  CountingIndex memory_;
  TimePoint now_{std::chrono::hours(1)};
  const Clock clock_ = [this] { return now_; };
  const RulesGate rules_{kRules};
  Quotas quotas_{rules_.gate(), &clock_};
  QuotaIndex index_{&memory_, &quotas_, &clock_};
};

TEST_F(QuotaIndexTest, NoMoreThanItMayHold) {
  EXPECT_EQ(Commit(Entries(0, 6)), "OK");
  EXPECT_EQ(Commit(Entries(6, 5)), "QUOTA_EXCEEDED");
  EXPECT_EQ(CountOf(kTight), 6u);
  EXPECT_EQ(Commit(Entries(6, 4)), "OK");
  EXPECT_EQ(Commit(Entries(10, 1)), "QUOTA_EXCEEDED");
  EXPECT_EQ(CountOf(kTight), 10u);
  EXPECT_EQ(Commit(Entries(0, 1000), kWide), "OK");
}

// One that is told to try again, and finds nothing changed, would do so for ever.
TEST_F(QuotaIndexTest, ItIsOfNoUseToTryAgain) {
  const absl::Status status = WaitFor(index_.Commit(kTight, 1, Entries(0, 11), false));
  EXPECT_EQ(ReasonNameOf(status), "QUOTA_EXCEEDED");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(status.GetPayload("type.googleapis.com/google.rpc.RetryInfo").has_value());
  EXPECT_EQ(MessageOf(status), "the quota of repository 'tight' is used up: at most 10 entries");
}

// A backup that finds all of its chunks, a rebuild, a collection that moves what it keeps.
TEST_F(QuotaIndexTest, WhatIsThereIsCommittedAgainAndMoved) {
  EXPECT_EQ(Commit(Entries(0, 10)), "OK");
  for (int round = 0; round < 20; ++round) EXPECT_EQ(Commit(Entries(0, 10)), "OK");
  EXPECT_EQ(Commit(Entries(3, 5, "elsewhere"), kTight, true), "OK");
  std::vector<Digest> digests = {Entries(3, 1)[0].digest};
  std::vector<LookupResult> found(1);
  ASSERT_TRUE(WaitFor(index_.Lookup(kTight, 1, digests, found)).ok());
  EXPECT_EQ(found[0].locator, "elsewhere");
  EXPECT_EQ(Commit(Entries(9, 2)), "QUOTA_EXCEEDED");
  // Not by saying that they are to be replaced.
  EXPECT_EQ(Commit(Entries(10, 1), kTight, true), "QUOTA_EXCEEDED");
  EXPECT_EQ(CountOf(kTight), 10u);
}

TEST_F(QuotaIndexTest, WhatIsForgottenMakesRoom) {
  EXPECT_EQ(Commit(Entries(0, 10)), "OK");
  EXPECT_EQ(Commit(Entries(20, 3)), "QUOTA_EXCEEDED");
  ASSERT_TRUE(WaitFor(index_.Forget(kTight, Entries(0, 4))).ok());
  EXPECT_EQ(Commit(Entries(20, 3)), "OK");
  EXPECT_EQ(Commit(Entries(30, 2)), "QUOTA_EXCEEDED");
}

// However it goes: a collection forgets what is old, and a repository may be dropped.
TEST_F(QuotaIndexTest, WhatACollectionForgetsOrADropTakesMakesRoom) {
  EXPECT_EQ(Commit(Entries(0, 10)), "OK");
  EXPECT_EQ(Commit(Entries(20, 1)), "QUOTA_EXCEEDED");
  ASSERT_TRUE(WaitFor(index_.AdvanceEpoch(kTight, 2, 0)).ok());
  ASSERT_TRUE(WaitFor(index_.ForgetOlder(kTight, 2, std::nullopt, 100)).ok());
  EXPECT_EQ(CountOf(kTight), 0u);
  const auto commit = [&](int first, int count) {
    return ReasonNameOf(WaitFor(index_.Commit(kTight, 2, Entries(first, count), false)));
  };
  EXPECT_EQ(commit(30, 10), "");
  EXPECT_EQ(commit(50, 1), "QUOTA_EXCEEDED");
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(WaitFor(index_.Drop(kTight, std::nullopt, 100)).ok());
  }
  EXPECT_EQ(CountOf(kTight), 0u);
  EXPECT_EQ(commit(60, 10), "");
}

TEST_F(QuotaIndexTest, OthersThatFillItAreSeenInAWhile) {
  EXPECT_EQ(Commit(Entries(0, 1)), "OK");
  ASSERT_TRUE(WaitFor(memory_.Commit(kTight, 1, Entries(1, 9), false)).ok());
  now_ += std::chrono::seconds(10);
  EXPECT_EQ(Commit(Entries(20, 1)), "QUOTA_EXCEEDED");
}

// Four workers of one index in Redis, who all know what was there when they counted first.
TEST_F(QuotaIndexTest, WhoSharesAnIndexTakesAPartOfTheRoomAndCountsAgain) {
  memory_.is_shared = true;
  const RulesGate rules("[[repository]]\nname = \"tight\"\nmax_entries = 16_000\n");
  Quotas quotas(rules.gate(), &clock_);
  constexpr int kWorkers = 4;
  const QuotaIndexOptions options{.margin = 10};
  std::vector<std::unique_ptr<QuotaIndex>> workers;
  workers.reserve(kWorkers);
  for (int worker = 0; worker < kWorkers; ++worker) {
    workers.push_back(std::make_unique<QuotaIndex>(&memory_, &quotas, &clock_, options));
  }
  int next = 0;
  const auto commit = [&](int worker, int count) {
    const absl::Status status = WaitFor(
        workers[static_cast<std::size_t>(worker)]->Commit(kTight, 1, Entries(next, count), false));
    next += count;
    return ReasonNameOf(status);
  };
  for (int worker = 0; worker < kWorkers; ++worker) EXPECT_EQ(commit(worker, 1), "");
  EXPECT_EQ(memory_.stats_count, kWorkers);
  // The last one alone fills it, while the others do nothing, ...
  while (next < 15'990) ASSERT_EQ(commit(kWorkers - 1, 10), "");
  // ... as often as it has to, and no oftener.
  EXPECT_LT(memory_.stats_count, 120);
  // They believe what they have counted, which was nothing, and have a sixteenth of it each.
  for (int worker = 0; worker < kWorkers - 1; ++worker) {
    for (int round = 0; round < 1'000; ++round) commit(worker, 10);
  }
  EXPECT_LE(CountOf(kTight), 16'000u + (kWorkers - 1) * 1'000);
  EXPECT_GT(CountOf(kTight), 16'000u);
  for (int worker = 0; worker < kWorkers; ++worker) EXPECT_EQ(commit(worker, 1), "QUOTA_EXCEEDED");
}

// Near the limit no more than one commit of each other worker goes beyond it.
TEST_F(QuotaIndexTest, WhoSharesAnIndexIsHeldCloselyNearItsLimit) {
  memory_.is_shared = true;
  const QuotaIndexOptions options{.margin = 3};
  QuotaIndex one(&memory_, &quotas_, &clock_, options);
  QuotaIndex other(&memory_, &quotas_, &clock_, options);
  ASSERT_TRUE(WaitFor(memory_.Commit(kTight, 1, Entries(0, 6), false)).ok());
  const auto commit = [&](QuotaIndex& index, int number) {
    return ReasonNameOf(WaitFor(index.Commit(kTight, 1, Entries(number, 1), false)));
  };
  // Both have counted 6, and find room for 4.
  EXPECT_EQ(commit(one, 0), "");
  EXPECT_EQ(commit(other, 0), "");
  EXPECT_EQ(commit(one, 20), "");
  EXPECT_EQ(commit(other, 30), "");
  for (int number = 21; number < 30; ++number) commit(one, number);
  for (int number = 31; number < 40; ++number) commit(other, number);
  EXPECT_LE(CountOf(kTight), 10u + 3u);
  EXPECT_EQ(commit(one, 40), "QUOTA_EXCEEDED");
  EXPECT_EQ(commit(other, 41), "QUOTA_EXCEEDED");
}

// Whoever has an index for himself counts no oftener than he has to.
TEST_F(QuotaIndexTest, WhoSharesWithNobodyCountsOnce) {
  const RulesGate rules("[[repository]]\nname = \"tight\"\nmax_entries = 10_000\n");
  Quotas quotas(rules.gate(), &clock_);
  QuotaIndex index(&memory_, &quotas, &clock_, {.margin = 10});
  for (int number = 0; number < 9'900; number += 10) {
    ASSERT_TRUE(WaitFor(index.Commit(kTight, 1, Entries(number, 10), false)).ok());
  }
  EXPECT_EQ(memory_.stats_count, 1);
}

// Whoever is far from its limit costs nothing, and whoever is not no more than a question whether
// his chunks are there.
TEST_F(QuotaIndexTest, IsAskedLittle) {
  QuotaIndex index(&memory_, &quotas_, &clock_, {.margin = 5});
  const auto commit = [&](const std::vector<IndexEntry>& entries) {
    return ReasonNameOf(WaitFor(index.Commit(kTight, 1, entries, false)));
  };
  for (int number = 0; number < 5; ++number) EXPECT_EQ(commit(Entries(number, 1)), "");
  EXPECT_EQ(memory_.stats_count, 1);
  EXPECT_EQ(memory_.lookup_count, 0);
  EXPECT_EQ(Commit(Entries(0, 1), kWide), "OK");
  EXPECT_EQ(memory_.stats_count, 1);
  for (int round = 0; round < 50; ++round) EXPECT_EQ(commit(Entries(50, 6)), "QUOTA_EXCEEDED");
  EXPECT_EQ(memory_.stats_count, 2);
  for (int round = 0; round < 50; ++round) EXPECT_EQ(commit(Entries(0, 5)), "");
  EXPECT_EQ(commit(Entries(5, 5)), "");
  for (int round = 0; round < 50; ++round) EXPECT_EQ(commit(Entries(50, 1)), "QUOTA_EXCEEDED");
  EXPECT_EQ(memory_.stats_count, 2);
  now_ += std::chrono::seconds(10);
  EXPECT_EQ(commit(Entries(50, 1)), "QUOTA_EXCEEDED");
  EXPECT_EQ(memory_.stats_count, 3);
}

TEST_F(QuotaIndexTest, WhatIsThereTakesNoRoom) {
  for (const std::uint64_t margin : {0, 3, 65'536}) {
    QuotaIndex index(&memory_, &quotas_, &clock_, {.margin = margin});
    const auto commit = [&](const std::vector<IndexEntry>& entries) {
      return ReasonNameOf(WaitFor(index.Commit(kTight, 1, entries, false)));
    };
    for (int round = 0; round < 4; ++round) EXPECT_EQ(commit(Entries(0, 5)), "") << margin;
    for (int number = 5; number < 10; ++number) EXPECT_EQ(commit(Entries(number, 1)), "") << margin;
    EXPECT_EQ(commit(Entries(10, 1)), "QUOTA_EXCEEDED");
    EXPECT_EQ(CountOf(kTight), 10u);
    ASSERT_TRUE(WaitFor(memory_.Drop(kTight, std::nullopt, 100)).ok());
    ASSERT_TRUE(WaitFor(memory_.Drop(kTight, std::nullopt, 100)).ok());
  }
}

// A collection moves what it keeps: it has to come out right also where something of it is unknown.
TEST_F(QuotaIndexTest, OfABatchWhatIsKnownIsWrittenAndTheRestIsNot) {
  EXPECT_EQ(Commit(Entries(0, 9)), "OK");
  std::vector<IndexEntry> moved = Entries(5, 4, "elsewhere");
  const std::vector<IndexEntry> unknown = Entries(100, 2, "elsewhere");
  moved.insert(moved.begin() + 2, unknown.begin(), unknown.end());
  EXPECT_EQ(Commit(moved, kTight, true), "QUOTA_EXCEEDED");
  EXPECT_EQ(CountOf(kTight), 9u);
  for (const IndexEntry& entry : moved) {
    const std::vector<Digest> digests = {entry.digest};
    std::vector<LookupResult> found(1);
    ASSERT_TRUE(WaitFor(index_.Lookup(kTight, 1, digests, found)).ok());
    const bool is_known = entry.digest.bytes[0] < 100;
    EXPECT_EQ(found[0].verdict, is_known ? Verdict::kDuplicate : Verdict::kNew);
    EXPECT_EQ(found[0].locator, is_known ? "elsewhere" : "");
  }
}

TEST_F(QuotaIndexTest, WhatCannotBeCountedIsNotCommitted) {
  memory_.failure = absl::UnavailableError("away");
  EXPECT_EQ(WaitFor(index_.Commit(kTight, 1, Entries(0, 1), false)), memory_.failure);
  EXPECT_EQ(Commit(Entries(0, 1), kWide), "OK");
  memory_.failure = absl::OkStatus();
  EXPECT_EQ(CountOf(kTight), 0u);
  EXPECT_EQ(Commit(Entries(0, 1)), "OK");
}

TEST_F(QuotaIndexTest, RemembersSoManyRepositories) {
  const RulesGate all("[[repository]]\nname = \"*\"\nmax_entries = 2\n");
  Quotas quotas(all.gate(), &clock_);
  QuotaIndex index(&memory_, &quotas, &clock_, {.capacity = 3});
  for (int round = 0; round < 2; ++round) {
    for (int number = 0; number < 10; ++number) {
      const RepositoryId id{"r" + std::to_string(number), DigestAlgorithm::kBlake3};
      EXPECT_TRUE(WaitFor(index.Commit(id, 1, Entries(round, 1), false)).ok());
    }
  }
  const RepositoryId first{"r0", DigestAlgorithm::kBlake3};
  EXPECT_EQ(ReasonNameOf(WaitFor(index.Commit(first, 1, Entries(7, 1), false))), "QUOTA_EXCEEDED");
}

}  // namespace
}  // namespace kerf
