#include "server/index/testing/conformance.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "server/index/testing/model.h"

namespace kerf {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(IndexConformance);

namespace {

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

// The digest of a small number, spread over all of a backend's shards.
Digest DigestOf(const RepositoryId& repository, std::uint64_t number) {
  Digest digest;
  Random random(number);
  random.Fill(std::span(digest.bytes).first(DigestSizeBytes(repository.digest_algorithm)));
  return digest;
}

IndexEntry EntryOf(std::uint64_t number, std::string locator, std::uint32_t length_bytes = 7) {
  return {DigestOf(kRepository, number), length_bytes, std::move(locator)};
}

absl::Status CommitOne(Index& index, std::uint64_t epoch, const IndexEntry& entry,
                       bool replace = false, const RepositoryId& repository = kRepository) {
  return index.Commit(repository, epoch, std::span(&entry, 1), replace);
}

LookupResult LookupOne(Index& index, std::uint64_t epoch, const Digest& digest,
                       const RepositoryId& repository = kRepository) {
  // A lookup must leave none of this behind.
  LookupResult result{Verdict::kUnverified, 99, "left behind"};
  const absl::Status status =
      index.Lookup(repository, epoch, std::span(&digest, 1), std::span(&result, 1));
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

std::uint64_t ForgetOne(Index& index, const IndexEntry& entry,
                        const RepositoryId& repository = kRepository) {
  const auto result = index.Forget(repository, std::span(&entry, 1));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(ForgetResult()).forgotten_count;
}

void ExpectSame(const LookupResult& actual, const LookupResult& expected) {
  EXPECT_EQ(actual.verdict, expected.verdict);
  EXPECT_EQ(actual.length_bytes, expected.length_bytes);
  EXPECT_EQ(actual.locator, expected.locator);
}

std::vector<IndexEntry> ScanAll(Index& index, const RepositoryId& repository, std::size_t limit) {
  std::vector<IndexEntry> all;
  std::optional<Digest> after;
  while (true) {
    const auto page = index.Scan(repository, after, limit);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok() || page->empty()) return all;
    EXPECT_LE(page->size(), limit);
    after = page->back().digest;
    all.insert(all.end(), page->begin(), page->end());
  }
}

}  // namespace

TEST_P(IndexConformance, EmptyIndexKnowsNothing) {
  ExpectSame(LookupOne(*index_, 1, DigestOf(kRepository, 1)), {Verdict::kNew, 0, ""});
  EXPECT_TRUE(index_->Lookup(kRepository, 1, {}, {}).ok());
  EXPECT_TRUE(index_->Commit(kRepository, 1, {}, false).ok());
  EXPECT_EQ(index_->Forget(kRepository, {})->forgotten_count, 0u);
  EXPECT_TRUE(index_->Scan(kRepository, std::nullopt, 10)->empty());
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, 0u);
  EXPECT_EQ(index_->Stats(kRepository)->epoch, 0u);
  EXPECT_FALSE(index_->backend_name().empty());
}

TEST_P(IndexConformance, CommittedIsDuplicateWithItsLocatorAndLength) {
  const std::string binary("\0\xFF\n", 3);
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, binary, 0)).ok());
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(2, std::string(64, 'x'), 0xFFFFFFFF)).ok());
  ExpectSame(LookupOne(*index_, 1, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 0, binary});
  ExpectSame(LookupOne(*index_, 1, DigestOf(kRepository, 2)),
             {Verdict::kDuplicate, 0xFFFFFFFF, std::string(64, 'x')});
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 3)).verdict, Verdict::kNew);
}

TEST_P(IndexConformance, FirstCommitOfAnEpochWins) {
  ASSERT_TRUE(CommitOne(*index_, 5, EntryOf(1, "first", 1)).ok());
  ASSERT_TRUE(CommitOne(*index_, 5, EntryOf(1, "second", 2)).ok());
  ASSERT_TRUE(CommitOne(*index_, 4, EntryOf(1, "older session", 3)).ok());
  ExpectSame(LookupOne(*index_, 5, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 1, "first"});
}

TEST_P(IndexConformance, OneCallIsOneCommitAfterTheOther) {
  const std::vector<IndexEntry> twice = {EntryOf(1, "first"), EntryOf(2, "other"),
                                         EntryOf(1, "second")};
  ASSERT_TRUE(index_->Commit(kRepository, 1, twice, /*replace=*/false).ok());
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).locator, "first");
  ASSERT_TRUE(index_->Commit(kRepository, 1, twice, /*replace=*/true).ok());
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).locator, "second");
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, 2u);
  const std::vector<IndexEntry> gone = {EntryOf(1, "second"), EntryOf(1, ""), EntryOf(3, "")};
  EXPECT_EQ(index_->Forget(kRepository, gone)->forgotten_count, 1u);
}

// Larger than any leaf's batch, and no digest twice: the first and the last of each batch count.
TEST_P(IndexConformance, LargeCallsLeaveNothingOut) {
  constexpr std::uint64_t kCount = 5'000;
  std::vector<IndexEntry> entries;
  entries.reserve(kCount);
  std::vector<Digest> digests;
  digests.reserve(kCount);
  for (std::uint64_t number = 0; number < kCount; ++number) {
    entries.push_back(EntryOf(number, std::to_string(number)));
    digests.push_back(entries.back().digest);
  }
  ASSERT_TRUE(index_->Commit(kRepository, 1, entries, false).ok());
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, kCount);
  std::vector<LookupResult> results(kCount);
  ASSERT_TRUE(index_->Lookup(kRepository, 1, digests, results).ok());
  for (std::uint64_t number = 0; number < kCount; ++number) {
    ASSERT_EQ(results[number].verdict, Verdict::kDuplicate) << number;
    ASSERT_EQ(results[number].locator, std::to_string(number));
  }
  EXPECT_EQ(index_->Forget(kRepository, entries)->forgotten_count, kCount);
  EXPECT_TRUE(index_->Scan(kRepository, std::nullopt, 1)->empty());
}

TEST_P(IndexConformance, HitOfAnEarlierEpochIsUnverifiedUntilTheEpochAdvances) {
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "a")).ok());
  ExpectSame(LookupOne(*index_, 2, DigestOf(kRepository, 1)), {Verdict::kUnverified, 7, "a"});
  EXPECT_EQ(index_->AdvanceEpoch(kRepository, 2, 0).value(), 0u);
  ExpectSame(LookupOne(*index_, 2, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 7, "a"});
  EXPECT_EQ(LookupOne(*index_, 3, DigestOf(kRepository, 1)).verdict, Verdict::kUnverified);
}

TEST_P(IndexConformance, CommitOfALaterEpochReplacesTheUnverified) {
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "old", 1)).ok());
  ASSERT_TRUE(CommitOne(*index_, 2, EntryOf(1, "new", 2)).ok());
  ExpectSame(LookupOne(*index_, 2, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 2, "new"});
  // But not what the repository's epoch vouches for.
  ASSERT_TRUE(index_->AdvanceEpoch(kRepository, 3, 0).ok());
  ASSERT_TRUE(CommitOne(*index_, 3, EntryOf(1, "newer", 3)).ok());
  ExpectSame(LookupOne(*index_, 3, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 2, "new"});
}

TEST_P(IndexConformance, ReplaceMovesTheLocatorAndNeverLowersTheEpoch) {
  ASSERT_TRUE(CommitOne(*index_, 5, EntryOf(1, "old")).ok());
  ASSERT_TRUE(CommitOne(*index_, 2, EntryOf(1, "moved"), /*replace=*/true).ok());
  ExpectSame(LookupOne(*index_, 5, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 7, "moved"});
  ASSERT_TRUE(CommitOne(*index_, 6, EntryOf(1, "again"), /*replace=*/true).ok());
  ExpectSame(LookupOne(*index_, 6, DigestOf(kRepository, 1)), {Verdict::kDuplicate, 7, "again"});
}

TEST_P(IndexConformance, ForgetRemovesUnlessTheChunkHasMoved) {
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "a")).ok());
  EXPECT_EQ(ForgetOne(*index_, EntryOf(1, "elsewhere")), 0u);
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).verdict, Verdict::kDuplicate);
  EXPECT_EQ(ForgetOne(*index_, EntryOf(1, "a", 12345)), 1u);
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).verdict, Verdict::kNew);
  EXPECT_EQ(ForgetOne(*index_, EntryOf(1, "a")), 0u);
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "b")).ok());
  EXPECT_EQ(ForgetOne(*index_, EntryOf(1, "")), 1u);
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, 0u);
}

TEST_P(IndexConformance, EpochNeverFalls) {
  EXPECT_EQ(index_->AdvanceEpoch(kRepository, 3, 0).value(), 0u);
  EXPECT_EQ(index_->AdvanceEpoch(kRepository, 3, 0).value(), 3u);
  EXPECT_EQ(index_->AdvanceEpoch(kRepository, 2, 0).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(index_->AdvanceEpoch(kRepository, UINT64_MAX, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(index_->AdvanceEpoch(kRepository, 9, 0).value(), 3u);
  EXPECT_EQ(index_->Stats(kRepository)->epoch, 9u);
}

TEST_P(IndexConformance, AnEpochThatIsNotReachedIsNotRaised) {
  ASSERT_TRUE(index_->AdvanceEpoch(kRepository, 3, 0).ok());
  EXPECT_EQ(index_->AdvanceEpoch(kRepository, 5, 4).value(), 3u);
  EXPECT_EQ(index_->Stats(kRepository)->epoch, 3u);
  EXPECT_TRUE(CommitOne(*index_, 3, EntryOf(1, "a")).ok());
  EXPECT_EQ(index_->AdvanceEpoch(kRepository, 5, 3).value(), 3u);
  // What was raised by a call whose answer was lost.
  EXPECT_EQ(index_->AdvanceEpoch(kRepository, 5, 4).value(), 5u);
  EXPECT_EQ(index_->Stats(kRepository)->epoch, 5u);
}

TEST_P(IndexConformance, ForgetSaysTheEpochAtWhichItLooked) {
  EXPECT_EQ(index_->Forget(kRepository, {})->epoch, 0u);
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "a")).ok());
  ASSERT_TRUE(index_->AdvanceEpoch(kRepository, 4, 0).ok());
  EXPECT_EQ(index_->Forget(kRepository, {})->epoch, 4u);
}

// A collection believes an index only if nobody has removed what it asks about since the epoch was
// raised: somebody else's removal may be lost, together with all that came behind it.
TEST_P(IndexConformance, ForgetSaysWhatAnybodyHasRemovedSinceTheEpochWasRaised) {
  const IndexEntry entry = EntryOf(1, "a");
  const auto removed_count = [this, &entry] {
    return index_->Forget(kRepository, std::span(&entry, 1))->removed_count;
  };
  EXPECT_EQ(removed_count(), 0u);
  ASSERT_TRUE(CommitOne(*index_, 1, entry).ok());
  EXPECT_EQ(ForgetOne(*index_, EntryOf(1, "elsewhere")), 0u);
  EXPECT_EQ(index_->Forget(kRepository, {})->removed_count, 0u);
  EXPECT_EQ(ForgetOne(*index_, entry), 1u);
  EXPECT_EQ(removed_count(), 1u);
  EXPECT_EQ(index_->Forget(kRepository, {})->removed_count, 1u);
  EXPECT_EQ(index_->ForgetOlder(kRepository, 1, std::nullopt, 10)->forgotten.removed_count, 1u);
  // Of another epoch; not of the same one told again.
  ASSERT_TRUE(index_->AdvanceEpoch(kRepository, 2, 0).ok());
  EXPECT_EQ(removed_count(), 0u);
  ASSERT_TRUE(CommitOne(*index_, 2, entry).ok());
  EXPECT_EQ(removed_count(), 1u);
  ASSERT_TRUE(CommitOne(*index_, 2, entry).ok());
  EXPECT_EQ(removed_count(), 2u);
  ASSERT_TRUE(index_->AdvanceEpoch(kRepository, 2, 0).ok());
  ASSERT_TRUE(index_->AdvanceEpoch(kRepository, 9, 8).ok());
  EXPECT_EQ(removed_count(), 2u);
  if (GetParam().reopen) index_ = GetParam().reopen(std::move(index_));
  EXPECT_EQ(removed_count(), 2u);
  EXPECT_EQ(index_->Forget({"other", DigestAlgorithm::kBlake3}, {})->removed_count, 0u);
  ASSERT_TRUE(index_->AdvanceEpoch(kRepository, 3, 2).ok());
  EXPECT_EQ(removed_count(), 0u);
}

TEST_P(IndexConformance, ForgetOlderKeepsWhatTheEpochsSessionsCommitted) {
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(1, "old")).ok());
  ASSERT_TRUE(CommitOne(*index_, 2, EntryOf(2, "kept")).ok());
  ASSERT_TRUE(CommitOne(*index_, 3, EntryOf(3, "of later")).ok());
  ASSERT_TRUE(CommitOne(*index_, 1, EntryOf(4, "found")).ok());
  // As a collection does that has found the chunk.
  ASSERT_TRUE(CommitOne(*index_, 2, EntryOf(4, "found"), /*replace=*/true).ok());
  const auto none = index_->ForgetOlder(kRepository, 1, std::nullopt, 100);
  EXPECT_EQ(none->forgotten.forgotten_count, 0u);
  EXPECT_FALSE(none->last.has_value());
  const auto result = index_->ForgetOlder(kRepository, 2, std::nullopt, 100);
  EXPECT_EQ(result->forgotten.forgotten_count, 1u);
  EXPECT_EQ(result->forgotten.removed_count, 1u);
  EXPECT_FALSE(result->last.has_value());
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).verdict, Verdict::kNew);
  EXPECT_EQ(LookupOne(*index_, 2, DigestOf(kRepository, 2)).locator, "kept");
  EXPECT_EQ(LookupOne(*index_, 2, DigestOf(kRepository, 3)).locator, "of later");
  EXPECT_EQ(LookupOne(*index_, 2, DigestOf(kRepository, 4)).locator, "found");
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, 3u);
  ASSERT_TRUE(index_->AdvanceEpoch(kRepository, 7, 0).ok());
  EXPECT_EQ(index_->ForgetOlder(kRepository, 2, std::nullopt, 100)->forgotten.epoch, 7u);
}

TEST_P(IndexConformance, ForgetOlderGoesThroughTheIndexInParts) {
  constexpr std::uint64_t kCount = 3'000;
  std::vector<IndexEntry> entries;
  entries.reserve(kCount);
  for (std::uint64_t number = 0; number < kCount; ++number) entries.push_back(EntryOf(number, "a"));
  ASSERT_TRUE(index_->Commit(kRepository, 1, entries, false).ok());
  ASSERT_TRUE(index_->Commit({"other", DigestAlgorithm::kBlake3}, 1, entries, false).ok());
  std::uint64_t forgotten_count = 0;
  std::size_t call_count = 0;
  std::optional<Digest> after;
  do {
    const auto result = index_->ForgetOlder(kRepository, 2, after, 100);
    ASSERT_TRUE(result.ok()) << result.status();
    forgotten_count += result->forgotten.forgotten_count;
    after = result->last;
    ++call_count;
  } while (after.has_value());
  EXPECT_EQ(forgotten_count, kCount);
  EXPECT_GT(call_count, 1u);
  EXPECT_TRUE(index_->Scan(kRepository, std::nullopt, 1)->empty());
  EXPECT_EQ(index_->Stats({"other", DigestAlgorithm::kBlake3})->entry_count, kCount);
}

TEST_P(IndexConformance, CommitBehindTheEpochIsRefusedAndWritesNothing) {
  ASSERT_TRUE(CommitOne(*index_, 4, EntryOf(1, "old")).ok());
  ASSERT_TRUE(index_->AdvanceEpoch(kRepository, 5, 0).ok());
  const std::vector<IndexEntry> late = {EntryOf(1, "late"), EntryOf(2, "late")};
  for (const bool replace : {false, true}) {
    const absl::Status status = index_->Commit(kRepository, 4, late, replace);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(LookupOne(*index_, 5, DigestOf(kRepository, 1)).locator, "old");
    EXPECT_EQ(LookupOne(*index_, 5, DigestOf(kRepository, 2)).verdict, Verdict::kNew);
  }
  EXPECT_TRUE(index_->Commit({"other", DigestAlgorithm::kBlake3}, 4, late, false).ok());
  EXPECT_TRUE(index_->Commit(kRepository, 5, late, true).ok());
  EXPECT_EQ(LookupOne(*index_, 5, DigestOf(kRepository, 1)).locator, "late");
}

TEST_P(IndexConformance, ScanPagesInDigestOrder) {
  std::vector<IndexEntry> entries;
  entries.reserve(304);
  for (std::uint64_t number = 0; number < 300; ++number) {
    entries.push_back(EntryOf(number, "at " + std::to_string(number)));
  }
  // Both ends of the order, each with a neighbour that differs in the last bit.
  for (const std::uint8_t fill : {0x00, 0xFF}) {
    for (const std::uint8_t flip : {0, 1}) {
      IndexEntry entry{{}, 1, "edge"};
      entry.digest.bytes.fill(fill);
      entry.digest.bytes.back() ^= flip;
      entries.push_back(entry);
    }
  }
  ASSERT_TRUE(index_->Commit(kRepository, 1, entries, false).ok());
  std::sort(entries.begin(), entries.end(),
            [](const IndexEntry& a, const IndexEntry& b) { return a.digest < b.digest; });
  for (const std::size_t limit : {1u, 7u, 304u, 1000u}) {
    EXPECT_EQ(ScanAll(*index_, kRepository, limit), entries) << limit;
  }
  EXPECT_TRUE(index_->Scan(kRepository, std::nullopt, 0)->empty());
  // From between two entries.
  Digest between = entries[100].digest;
  between.bytes[20] ^= 1;
  const std::size_t next = between < entries[100].digest ? 100 : 101;
  EXPECT_EQ(index_->Scan(kRepository, between, 1)->front(), entries[next]);
}

TEST_P(IndexConformance, RepositoriesNeverMeet) {
  // Names that are prefixes of each other, with everything that could be taken for a separator.
  std::vector<RepositoryId> repositories;
  for (const char* name : {"a", "aa", "a.a", "a-", "A", "-", ".", "..", "a_a.a-a"}) {
    for (const DigestAlgorithm algorithm :
         {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128}) {
      repositories.push_back({name, algorithm});
    }
  }
  repositories.push_back({std::string(kMaxRepositoryNameBytes, 'a'), DigestAlgorithm::kBlake3});
  // One value for all of them: short enough for every algorithm, and made of their names' letters.
  Digest digest;
  std::fill_n(digest.bytes.begin(), 16, static_cast<std::uint8_t>('a'));
  const auto entry_of = [&digest](std::size_t index) {
    return IndexEntry{digest, static_cast<std::uint32_t>(index), std::to_string(index)};
  };
  for (std::size_t index = 0; index < repositories.size(); ++index) {
    EXPECT_EQ(LookupOne(*index_, 1, digest, repositories[index]).verdict, Verdict::kNew);
    ASSERT_TRUE(CommitOne(*index_, 1, entry_of(index), false, repositories[index]).ok());
    ASSERT_TRUE(index_->AdvanceEpoch(repositories[index], index + 1, 0).ok());
  }
  for (std::size_t index = 0; index < repositories.size(); ++index) {
    const RepositoryId& repository = repositories[index];
    EXPECT_EQ(LookupOne(*index_, 1, digest, repository).locator, std::to_string(index));
    EXPECT_EQ(ScanAll(*index_, repository, 10), std::vector<IndexEntry>{entry_of(index)});
    EXPECT_EQ(index_->Stats(repository)->entry_count, 1u);
    EXPECT_EQ(index_->Stats(repository)->epoch, index + 1);
  }
  EXPECT_EQ(ForgetOne(*index_, {digest, 0, ""}, repositories[0]), 1u);
  for (std::size_t index = 1; index < repositories.size(); ++index) {
    EXPECT_EQ(LookupOne(*index_, 1, digest, repositories[index]).verdict, Verdict::kDuplicate);
  }
}

TEST_P(IndexConformance, RefusesWhatIsOutOfItsLimits) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const Digest digest = DigestOf(kRepository, 1);
  LookupResult result;
  const std::span<const Digest> digests(&digest, 1);
  const std::span<LookupResult> results(&result, 1);
  for (const std::string& name :
       {std::string(), std::string(kMaxRepositoryNameBytes + 1, 'a'), std::string("a/b"),
        std::string("a b"), std::string("a\0b", 3), std::string("\xC3\xA4")}) {
    const RepositoryId repository{name, DigestAlgorithm::kBlake3};
    EXPECT_EQ(index_->Lookup(repository, 1, digests, results).code(), invalid) << name;
    EXPECT_EQ(index_->Commit(repository, 1, {}, false).code(), invalid) << name;
    EXPECT_EQ(index_->Forget(repository, {}).status().code(), invalid) << name;
    EXPECT_EQ(index_->AdvanceEpoch(repository, 1, 0).status().code(), invalid) << name;
    EXPECT_EQ(index_->Scan(repository, std::nullopt, 1).status().code(), invalid) << name;
    EXPECT_EQ(index_->Stats(repository).status().code(), invalid) << name;
  }
  // As a peer's number may be. NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  const RepositoryId unknown{"photos", static_cast<DigestAlgorithm>(77)};
  EXPECT_EQ(index_->Lookup(unknown, 1, digests, results).code(), invalid);
  EXPECT_EQ(index_->Lookup(kRepository, 1, digests, {}).code(), invalid);
  EXPECT_EQ(CommitOne(*index_, 1, EntryOf(1, "")).code(), invalid);
  EXPECT_EQ(CommitOne(*index_, 1, EntryOf(1, std::string(kMaxLocatorBytes + 1, 'x'))).code(),
            invalid);
  // A digest of 32 bytes where 16 are right.
  const RepositoryId small{"photos", DigestAlgorithm::kXxh3_128};
  EXPECT_EQ(index_->Lookup(small, 1, digests, results).code(), invalid);
  EXPECT_EQ(CommitOne(*index_, 1, EntryOf(1, "a"), false, small).code(), invalid);
  EXPECT_EQ(index_->Scan(small, digest, 1).status().code(), invalid);
  EXPECT_EQ(index_->ForgetOlder(small, 1, digest, 1).status().code(), invalid);
  EXPECT_EQ(index_->ForgetOlder(kRepository, 1, std::nullopt, 0).status().code(), invalid);
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, 0u);
}

namespace {

// A random life of an index, compared with the model at each step.
class Life {
 public:
  Life(const IndexBackend& backend, std::unique_ptr<Index> index, std::uint64_t seed)
      : backend_(backend), random_(seed), index_(std::move(index)) {}

  void Step() {
    const RepositoryId& repository = repositories_[random_.Below(repositories_.size())];
    const std::uint64_t choice = random_.Below(13);
    if (choice == 12) {
      ForgetOlder(repository);
    } else if (choice < 4) {
      Commit(repository);
    } else if (choice < 6) {
      Forget(repository);
    } else if (choice < 7) {
      Advance(repository);
    } else if (choice < 8) {
      Scan(repository);
    } else if (choice < 9) {
      if (backend_.reopen && random_.OneIn(8)) index_ = backend_.reopen(std::move(index_));
    } else {
      Lookup(repository);
    }
  }

  void CheckAll() {
    for (const RepositoryId& repository : repositories_) Scan(repository);
  }

 private:
  std::uint64_t RandomEpoch() { return random_.Below(epoch_ + 2); }
  // Some calls are larger than any backend's batch.
  std::size_t RandomCount() { return random_.OneIn(10) ? 3000 : random_.Below(20); }

  std::vector<IndexEntry> RandomEntries(const RepositoryId& repository) {
    std::vector<IndexEntry> entries(RandomCount());
    for (IndexEntry& entry : entries) {
      entry = {DigestOf(repository, random_.Below(60)), static_cast<std::uint32_t>(random_.Next()),
               "at " + std::to_string(random_.Below(4))};
    }
    return entries;
  }

  void Commit(const RepositoryId& repository) {
    const std::vector<IndexEntry> entries = RandomEntries(repository);
    const std::uint64_t epoch = RandomEpoch();
    const bool replace = random_.OneIn(3);
    const absl::Status status = index_->Commit(repository, epoch, entries, replace);
    if (!entries.empty() && epoch < model_.Epoch(repository)) {
      ASSERT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      return;
    }
    ASSERT_TRUE(status.ok()) << status;
    for (const IndexEntry& entry : entries) model_.Commit(repository, epoch, entry, replace);
  }

  void Forget(const RepositoryId& repository) {
    std::vector<IndexEntry> entries = RandomEntries(repository);
    std::uint64_t expected = 0;
    for (IndexEntry& entry : entries) {
      if (random_.OneIn(3)) entry.locator.clear();
      expected += model_.Forget(repository, entry) ? 1 : 0;
    }
    const auto actual = index_->Forget(repository, entries);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ASSERT_EQ(actual->forgotten_count, expected);
    ASSERT_EQ(actual->epoch, model_.Epoch(repository));
    ExpectCounted(repository, *actual, [&](const Digest& digest) {
      return std::any_of(entries.begin(), entries.end(),
                         [&](const IndexEntry& entry) { return entry.digest == digest; });
    });
  }

  void ForgetOlder(const RepositoryId& repository) {
    const std::uint64_t epoch = RandomEpoch();
    const std::size_t limit = random_.Between(1, 40);
    std::optional<Digest> after;
    if (random_.OneIn(2)) after = DigestOf(repository, random_.Below(60));
    do {
      const auto actual = index_->ForgetOlder(repository, epoch, after, limit);
      ASSERT_TRUE(actual.ok()) << actual.status();
      ASSERT_EQ(actual->forgotten.forgotten_count,
                model_.ForgetOlder(repository, epoch, after, actual->last));
      ASSERT_EQ(actual->forgotten.epoch, model_.Epoch(repository));
      ExpectCounted(repository, actual->forgotten, [&](const Digest& digest) {
        return (!after.has_value() || *after < digest) &&
               (!actual->last.has_value() || !(*actual->last < digest));
      });
      ASSERT_TRUE(!actual->last.has_value() || !after.has_value() || *after < *actual->last);
      after = actual->last;
    } while (after.has_value() && !random_.OneIn(4));
  }

  template <typename IsAskedAbout>
  void ExpectCounted(const RepositoryId& repository, const ForgetResult& result,
                     const IsAskedAbout& is_asked_about) {
    const std::vector<Digest>& removed = model_.Removed(repository);
    if (removed.empty()) {
      EXPECT_EQ(result.removed_count, 0u);
    }
    if (std::any_of(removed.begin(), removed.end(), is_asked_about)) {
      EXPECT_GT(result.removed_count, 0u);
    }
  }

  void Advance(const RepositoryId& repository) {
    const std::uint64_t epoch = RandomEpoch();
    epoch_ = std::max(epoch_, epoch);
    const std::uint64_t min_before = random_.OneIn(3) ? RandomEpoch() : 0;
    const std::optional<std::uint64_t> expected =
        model_.AdvanceEpoch(repository, epoch, min_before);
    const auto actual = index_->AdvanceEpoch(repository, epoch, min_before);
    ASSERT_EQ(actual.ok(), expected.has_value());
    if (expected) {
      ASSERT_EQ(*actual, *expected);
    }
  }

  void Scan(const RepositoryId& repository) {
    const std::vector<IndexEntry> expected = model_.All(repository);
    ASSERT_EQ(ScanAll(*index_, repository, random_.Between(1, 70)), expected);
    const auto stats = index_->Stats(repository);
    ASSERT_TRUE(stats.ok()) << stats.status();
    ASSERT_EQ(stats->entry_count, expected.size());
    ASSERT_EQ(stats->epoch, model_.Epoch(repository));
  }

  void Lookup(const RepositoryId& repository) {
    std::vector<Digest> digests(RandomCount());
    for (Digest& digest : digests) digest = DigestOf(repository, random_.Below(70));
    std::vector<LookupResult> results(digests.size(), {Verdict::kUnverified, 99, "left behind"});
    const std::uint64_t epoch = RandomEpoch();
    ASSERT_TRUE(index_->Lookup(repository, epoch, digests, results).ok());
    for (std::size_t index = 0; index < digests.size(); ++index) {
      ExpectSame(results[index], model_.Lookup(repository, epoch, digests[index]));
    }
  }

  const IndexBackend& backend_;
  const std::vector<RepositoryId> repositories_ = {
      {"a", DigestAlgorithm::kBlake3},
      {"a", DigestAlgorithm::kXxh3_128},
      {"aa", DigestAlgorithm::kSha256},
  };
  Random random_;
  std::uint64_t epoch_ = 1;
  IndexModel model_;
  std::unique_ptr<Index> index_;
};

}  // namespace

TEST_P(IndexConformance, LivesLikeTheModel) {
  Life life(GetParam(), std::move(index_), TestSeed());
  for (int step = 0; step < 1000 && !HasFailure(); ++step) life.Step();
  life.CheckAll();
}

TEST_P(IndexConformance, ConcurrentCommitsAgreeOnOneLocator) {
  constexpr std::size_t kThreads = 4;
  constexpr std::uint64_t kDigests = 400;
  std::vector<std::vector<std::string>> seen(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread, &seen] {
      for (std::uint64_t first = 0; first < kDigests; first += 10) {
        std::vector<IndexEntry> entries;
        for (std::uint64_t number = first; number < first + 10; ++number) {
          entries.push_back(EntryOf(number, "of thread " + std::to_string(thread)));
        }
        // Neighbours come in another order in every thread.
        std::rotate(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(thread * 2),
                    entries.end());
        EXPECT_TRUE(index_->Commit(kRepository, 1, entries, false).ok());
        for (std::uint64_t number = first; number < first + 10; ++number) {
          seen[thread].push_back(LookupOne(*index_, 1, DigestOf(kRepository, number)).locator);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t thread = 1; thread < kThreads; ++thread) EXPECT_EQ(seen[thread], seen[0]);
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, kDigests);
}

// Collections run beside uploads: a digest that was forgotten before the epoch was raised is never
// called a duplicate in a session of that epoch.
TEST_P(IndexConformance, ForgottenBeforeTheEpochIsNeverDuplicateInIt) {
  constexpr std::uint64_t kEpochs = 100;
  std::atomic<std::uint64_t> current{1};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  readers.reserve(3);
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([this, &current, &done] {
      while (!done.load()) {
        // Digest E is committed by a session of E and forgotten before E + 1 is told.
        const std::uint64_t epoch = current.load();
        const LookupResult result = LookupOne(*index_, epoch + 1, DigestOf(kRepository, epoch));
        EXPECT_NE(result.verdict, Verdict::kDuplicate) << epoch;
      }
    });
  }
  for (std::uint64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    const IndexEntry entry = EntryOf(epoch, "a");
    EXPECT_TRUE(CommitOne(*index_, epoch, entry).ok());
    current.store(epoch);
    EXPECT_EQ(LookupOne(*index_, epoch, entry.digest).verdict, Verdict::kDuplicate);
    EXPECT_EQ(ForgetOne(*index_, entry), 1u);
    EXPECT_TRUE(index_->AdvanceEpoch(kRepository, epoch + 1, 0).ok());
  }
  done.store(true);
  for (std::thread& reader : readers) reader.join();
}

// What is in the index when AdvanceEpoch returns is all that earlier sessions ever commit.
TEST_P(IndexConformance, NoCommitOfAnEarlierSessionPassesTheFence) {
  constexpr std::size_t kThreads = 3;
  constexpr std::uint64_t kRounds = 20;
  std::atomic<std::uint64_t> next_number{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  writers.reserve(kThreads);
  std::atomic<std::uint64_t> accepted_count{0};
  std::atomic<std::uint64_t> session_epoch{1};
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    writers.emplace_back([&, this] {
      while (!done.load()) {
        const std::uint64_t epoch = session_epoch.load();
        std::vector<IndexEntry> entries(5);
        for (IndexEntry& entry : entries) entry = EntryOf(next_number.fetch_add(1), "a");
        const absl::Status status = index_->Commit(kRepository, epoch, entries, false);
        if (status.ok()) {
          accepted_count += entries.size();
        } else {
          EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
        }
      }
    });
  }
  for (std::uint64_t epoch = 2; epoch < 2 + kRounds; ++epoch) {
    const std::uint64_t awaited = accepted_count.load() + kThreads * 5;
    while (accepted_count.load() < awaited) std::this_thread::yield();
    EXPECT_TRUE(index_->AdvanceEpoch(kRepository, epoch, 0).ok());
    const std::uint64_t at_fence = index_->Stats(kRepository)->entry_count;
    // All writers try, and are refused, before they are told of the new epoch.
    const std::uint64_t tried = next_number.load() + 2 * kThreads * 5;
    while (next_number.load() < tried) std::this_thread::yield();
    EXPECT_EQ(index_->Stats(kRepository)->entry_count, at_fence);
    session_epoch.store(epoch);
  }
  done.store(true);
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, accepted_count.load());
}

TEST_P(IndexConformance, ConcurrentCommitAndForgetKeepTheCount) {
  constexpr std::size_t kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      Random random(TestSeed() + thread);
      for (int round = 0; round < 60; ++round) {
        std::vector<IndexEntry> entries(8);
        for (IndexEntry& entry : entries) entry = EntryOf(random.Below(50), "a");
        if (random.OneIn(3)) {
          EXPECT_TRUE(index_->Forget(kRepository, entries).ok());
        } else {
          EXPECT_TRUE(index_->Commit(kRepository, 1, entries, random.OneIn(2)).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<IndexEntry> left = ScanAll(*index_, kRepository, 1000);
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, left.size());
  EXPECT_EQ(index_->Forget(kRepository, left)->forgotten_count, left.size());
  EXPECT_EQ(index_->Stats(kRepository)->entry_count, 0u);
}

}  // namespace kerf
