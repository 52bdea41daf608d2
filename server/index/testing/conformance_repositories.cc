// Repositories as things: created, listed, dropped, and their epochs reset.
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/wait_for.h"
#include "server/index/rules.h"
#include "server/index/testing/conformance.h"
#include "server/index/testing/conformance_calls.h"

namespace kerf {

using namespace conformance;

namespace {

const RepositoryId kNeighbour{"photos", DigestAlgorithm::kSha256};
const RepositoryId kLonger{"photos2", DigestAlgorithm::kBlake3};

std::vector<ListedRepository> ListAll(Index& index, std::size_t limit) {
  std::vector<ListedRepository> all;
  while (true) {
    const std::optional<RepositoryId> after =
        all.empty() ? std::nullopt : std::optional(all.back().id);
    const auto page = WaitFor(index.List(after, limit));
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok() || page->empty()) return all;
    EXPECT_LE(page->size(), limit);
    all.insert(all.end(), page->begin(), page->end());
  }
}

// All steps; how many entries they have changed.
template <typename Step>
std::uint64_t DoInSteps(const Step& step) {
  std::uint64_t changed_count = 0;
  std::optional<Digest> after;
  do {
    const absl::StatusOr<StepResult> result = step(after);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return changed_count;
    changed_count += result->changed_count;
    after = result->last;
  } while (after.has_value());
  return changed_count;
}

std::uint64_t Drop(Index& index, const RepositoryId& repository, std::size_t limit) {
  return DoInSteps([&](const std::optional<Digest>& after) {
    return WaitFor(index.Drop(repository, after, limit));
  });
}

std::uint64_t Reset(Index& index, std::uint64_t epoch, std::size_t limit) {
  return DoInSteps([&](const std::optional<Digest>& after) {
    return WaitFor(index.ResetEpoch(kRepository, epoch, after, limit));
  });
}

// Entries 0 to `count` - 1 of a repository, in sessions of that epoch.
void CommitMany(Index& index, const RepositoryId& repository, std::uint64_t epoch,
                std::uint64_t count) {
  std::vector<IndexEntry> entries;
  entries.reserve(count);
  for (std::uint64_t number = 0; number < count; ++number) {
    entries.push_back({DigestOf(repository, number), 7, "here"});
  }
  ASSERT_TRUE(WaitFor(index.Commit(repository, epoch, entries, false)).ok());
}

}  // namespace

TEST_P(IndexConformance, RepositoriesAreCreatedAndListed) {
  EXPECT_TRUE(ListAll(*index_, 10).empty());
  EXPECT_FALSE(WaitFor(index_->IsCreated(kRepository)).value());
  // A lookup of a made-up name leaves nothing.
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).verdict, Verdict::kNew);
  EXPECT_TRUE(ListAll(*index_, 10).empty());

  const bool is_new = WaitFor(index_->Create(kRepository)).value();
  EXPECT_TRUE(is_new || GetParam().MayHaveRepeated());
  EXPECT_FALSE(WaitFor(index_->Create(kRepository)).value());
  EXPECT_TRUE(WaitFor(index_->IsCreated(kRepository)).value());
  EXPECT_FALSE(WaitFor(index_->IsCreated(kNeighbour)).value());
  CommitMany(*index_, kLonger, 1, 1);
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kNeighbour, 1, 0)).ok());
  const std::vector<ListedRepository> expected = {
      {kRepository, true}, {kNeighbour, false}, {kLonger, false}};
  for (const std::size_t limit : {1, 2, 3, 100}) EXPECT_EQ(ListAll(*index_, limit), expected);

  // What it holds stays.
  EXPECT_TRUE(WaitFor(index_->Create(kLonger)).ok());
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kLonger, 0), kLonger).verdict, Verdict::kDuplicate);
  if (GetParam().reopen == nullptr) return;
  index_ = GetParam().reopen(std::move(index_));
  EXPECT_EQ(ListAll(*index_, 2), (std::vector<ListedRepository>{
                                     {kRepository, true}, {kNeighbour, false}, {kLonger, true}}));
}

TEST_P(IndexConformance, WhatIsListedIsThere) {
  // Three ways to begin, two of them with one name.
  const auto is_there = [&](const RepositoryId& repository) {
    return WaitFor(index_->IsThere(repository)).value();
  };
  for (const RepositoryId& repository : {kRepository, kNeighbour, kLonger}) {
    EXPECT_FALSE(is_there(repository));
    EXPECT_TRUE(WaitFor(index_->Forget(repository, {})).ok());
    EXPECT_FALSE(is_there(repository));
  }
  ASSERT_TRUE(WaitFor(index_->Create(kRepository)).ok());
  EXPECT_TRUE(is_there(kRepository));
  EXPECT_FALSE(is_there(kNeighbour));
  CommitMany(*index_, kLonger, 1, 1);
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kNeighbour, 1, 0)).ok());
  EXPECT_TRUE(is_there(kLonger));
  EXPECT_TRUE(is_there(kNeighbour));
  if (GetParam().reopen != nullptr) index_ = GetParam().reopen(std::move(index_));
  for (const RepositoryId& repository : {kRepository, kNeighbour, kLonger}) {
    EXPECT_TRUE(is_there(repository));
    Drop(*index_, repository, 10);
    EXPECT_FALSE(is_there(repository));
  }
}

TEST_P(IndexConformance, RefusesNamesThatAreNone) {
  for (const RepositoryId& repository :
       {RepositoryId{"", DigestAlgorithm::kBlake3}, RepositoryId{"a/b", DigestAlgorithm::kBlake3},
        RepositoryId{"a", static_cast<DigestAlgorithm>(9)}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(WaitFor(index_->Create(repository)).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(WaitFor(index_->IsCreated(repository)).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(WaitFor(index_->IsThere(repository)).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(WaitFor(index_->List(repository, 1)).status()));
    EXPECT_TRUE(
        absl::IsInvalidArgument(WaitFor(index_->Drop(repository, std::nullopt, 1)).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(
        WaitFor(index_->ResetEpoch(repository, 1, std::nullopt, 1)).status()));
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(WaitFor(index_->Drop(kRepository, std::nullopt, 0)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      WaitFor(index_->ResetEpoch(kRepository, index_rules::kMaxEpoch + 1, std::nullopt, 1))
          .status()));
}

TEST_P(IndexConformance, NothingIsLeftOfWhatWasDropped) {
  constexpr std::uint64_t kCount = 300;
  ASSERT_TRUE(WaitFor(index_->Create(kRepository)).ok());
  for (const RepositoryId& repository : {kRepository, kNeighbour, kLonger}) {
    CommitMany(*index_, repository, 3, kCount);
    ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(repository, 3, 0)).ok());
  }
  ForgetOne(kRepository, EntryOf(0, "here"), 1);
  const std::uint64_t dropped_count = Drop(*index_, kRepository, 50);
  EXPECT_TRUE(dropped_count == kCount - 1 || GetParam().MayHaveRepeated()) << dropped_count;
  if (GetParam().reopen != nullptr) index_ = GetParam().reopen(std::move(index_));

  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 0u);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 0u);
  EXPECT_TRUE(ScanAll(*index_, kRepository, 100).empty());
  EXPECT_FALSE(WaitFor(index_->IsCreated(kRepository)).value());
  EXPECT_EQ(ListAll(*index_, 2),
            (std::vector<ListedRepository>{{kNeighbour, false}, {kLonger, false}}));
  for (const RepositoryId& repository : {kNeighbour, kLonger}) {
    EXPECT_EQ(ScanAll(*index_, repository, 100).size(), kCount);
    EXPECT_EQ(WaitFor(index_->Stats(repository))->epoch, 3u);
  }
  // Nothing is known of an earlier life: neither its epoch nor what was removed.
  CommitMany(*index_, kRepository, 1, 2);
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 1)).verdict, Verdict::kDuplicate);
  EXPECT_EQ(LookupOne(*index_, 1, DigestOf(kRepository, 2)).verdict, Verdict::kNew);
  const auto forgotten = WaitFor(index_->Forget(kRepository, {}));
  EXPECT_EQ(forgotten->epoch, 0u);
  EXPECT_EQ(forgotten->removed_count, 0u);
}

TEST_P(IndexConformance, DroppingWhatIsNotThereLeavesNothing) {
  EXPECT_EQ(Drop(*index_, kRepository, 10), 0u);
  EXPECT_TRUE(ListAll(*index_, 10).empty());
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 0u);
  // Only created: there is nothing else to remove.
  ASSERT_TRUE(WaitFor(index_->Create(kRepository)).ok());
  EXPECT_EQ(Drop(*index_, kRepository, 10), 0u);
  EXPECT_TRUE(ListAll(*index_, 10).empty());
}

TEST_P(IndexConformance, ADropThatWasBrokenOffIsBegunAgain) {
  ASSERT_TRUE(WaitFor(index_->Create(kRepository)).ok());
  CommitMany(*index_, kRepository, 1, 300);
  const auto step = WaitFor(index_->Drop(kRepository, std::nullopt, 20));
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_TRUE(step->last.has_value());
  if (GetParam().reopen != nullptr) index_ = GetParam().reopen(std::move(index_));
  EXPECT_FALSE(WaitFor(index_->IsCreated(kRepository)).value());
  if (!GetParam().commits_in_parts) {
    // One epoch for all: it is closed.
    const absl::Status refused = CommitOne(*index_, 1, EntryOf(1, "again"));
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_TRUE(
        absl::IsFailedPrecondition(WaitFor(index_->AdvanceEpoch(kRepository, 9, 0)).status()));
    for (const IndexEntry& left : ScanAll(*index_, kRepository, 100)) {
      EXPECT_EQ(LookupOne(*index_, 1, left.digest).verdict, Verdict::kUnverified);
    }
    // Who skips some is told so.
    Digest last;
    last.bytes.fill(0xFF);
    EXPECT_TRUE(absl::IsInvalidArgument(WaitFor(index_->Drop(kRepository, last, 20)).status()));
  }
  Drop(*index_, kRepository, 20);
  EXPECT_TRUE(ListAll(*index_, 10).empty());
  EXPECT_TRUE(ScanAll(*index_, kRepository, 100).empty());
  EXPECT_TRUE(CommitOne(*index_, 1, EntryOf(1, "again")).ok());
}

TEST_P(IndexConformance, WhatWasThereIsNotBelievedBehindAReset) {
  constexpr std::uint64_t kFar = 1000;
  CommitMany(*index_, kRepository, 2, 100);
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, kFar, 0)).ok());
  std::vector<IndexEntry> later;
  for (std::uint64_t number = 100; number < 200; ++number) later.push_back(EntryOf(number, "far"));
  ASSERT_TRUE(WaitFor(index_->Commit(kRepository, kFar + 5, later, false)).ok());

  const std::uint64_t lowered_count = Reset(*index_, 4, 30);
  EXPECT_TRUE(lowered_count == 100 || GetParam().MayHaveRepeated()) << lowered_count;
  if (GetParam().reopen != nullptr) index_ = GetParam().reopen(std::move(index_));
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 4u);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 200u);
  // In no session from now on, and where it is is still said.
  for (const std::uint64_t epoch : {std::uint64_t{5}, kFar, kFar + 5}) {
    for (std::uint64_t number = 0; number < 200; ++number) {
      const LookupResult result = LookupOne(*index_, epoch, DigestOf(kRepository, number));
      ASSERT_EQ(result.verdict, Verdict::kUnverified) << number << " in " << epoch;
      ASSERT_EQ(result.locator, number < 100 ? "here" : "far");
    }
  }
  // Sessions of today are served, and those before the fence are not.
  EXPECT_TRUE(absl::IsFailedPrecondition(CommitOne(*index_, 3, EntryOf(1, "late"))));
  ASSERT_TRUE(CommitOne(*index_, 5, EntryOf(150, "found")).ok());
  ExpectSame(LookupOne(*index_, 5, DigestOf(kRepository, 150)), {Verdict::kDuplicate, 7, "found"});
  // A collection that makes it whole removes all that nobody has committed since.
  const auto older = WaitFor(index_->ForgetOlder(kRepository, 5, std::nullopt, 1000));
  ASSERT_TRUE(older.ok()) << older.status();
  ExpectForgotten(GetParam(), older->forgotten, 199);
  ExpectEpochBefore(GetParam(), WaitFor(index_->AdvanceEpoch(kRepository, 6, 4)), 4, 6);
}

TEST_P(IndexConformance, AResetRaisesAnEpochToo) {
  CommitMany(*index_, kRepository, 1, 3);
  EXPECT_EQ(Reset(*index_, index_rules::kMaxEpoch - 1, 100), 0u);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, index_rules::kMaxEpoch - 1);
  EXPECT_EQ(LookupOne(*index_, index_rules::kMaxEpoch, DigestOf(kRepository, 1)).verdict,
            Verdict::kUnverified);
  // Of one that was never named.
  EXPECT_EQ(DoInSteps([&](const std::optional<Digest>& after) {
              return WaitFor(index_->ResetEpoch(kNeighbour, 7, after, 10));
            }),
            0u);
  EXPECT_EQ(WaitFor(index_->Stats(kNeighbour))->epoch, 7u);
}

TEST_P(IndexConformance, AResetThatWasBrokenOffIsBegunAgain) {
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, 90, 0)).ok());
  CommitMany(*index_, kRepository, 99, 300);
  ASSERT_TRUE(WaitFor(index_->ResetEpoch(kRepository, 4, std::nullopt, 20)).ok());
  if (GetParam().reopen != nullptr) index_ = GetParam().reopen(std::move(index_));
  if (!GetParam().commits_in_parts) {
    EXPECT_TRUE(absl::IsFailedPrecondition(CommitOne(*index_, 99, EntryOf(1, "late"))));
    for (const IndexEntry& entry : ScanAll(*index_, kRepository, 100)) {
      EXPECT_EQ(LookupOne(*index_, 5, entry.digest).verdict, Verdict::kUnverified);
    }
  }
  Reset(*index_, 4, 20);
  for (std::uint64_t number = 0; number < 300; ++number) {
    ASSERT_EQ(LookupOne(*index_, 5, DigestOf(kRepository, number)).verdict, Verdict::kUnverified);
  }
  EXPECT_TRUE(CommitOne(*index_, 5, EntryOf(1, "again")).ok());
}

// Others write, and forget, while the epoch is reset: what was there before is not believed, and
// what is forgotten does not come back.
TEST_P(IndexConformance, AResetBesideCommitsLeavesNothingBelieved) {
  constexpr std::uint64_t kCount = 400;
  constexpr std::uint64_t kFar = 1000;
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, kFar, 0)).ok());
  CommitMany(*index_, kRepository, kFar + 9, kCount);
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  others.reserve(2);
  for (std::uint64_t thread = 0; thread < 2; ++thread) {
    others.emplace_back([thread, &done, &index = IndexForThread()] {
      // Not without end, or there is more and more to reset.
      for (std::uint64_t number = kCount; !done.load() && number < 2 * kCount; ++number) {
        // Of these nothing is asked: they may come before the reset, or be refused, or come behind.
        CommitOne(index, number % 2 == 0 ? kFar : 5, EntryOf(number * 2 + thread, "beside"))
            .IgnoreError();
        if (number >= kCount + kCount / 4) continue;
        const IndexEntry gone = EntryOf((number - kCount) * 4, "");
        EXPECT_TRUE(WaitFor(index.Forget(kRepository, std::span(&gone, 1))).ok());
      }
    });
  }
  Reset(*index_, 4, 25);
  done.store(true);
  for (std::thread& other : others) other.join();
  for (std::uint64_t number = 0; number < kCount; ++number) {
    const LookupResult result = LookupOne(*index_, 5, DigestOf(kRepository, number));
    ASSERT_NE(result.verdict, Verdict::kDuplicate) << number;
  }
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 4u);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count,
            ScanAll(*index_, kRepository, 1000).size());
}

}  // namespace kerf
