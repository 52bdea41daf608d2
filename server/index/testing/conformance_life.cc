// The index against the model, step by step.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/index/testing/conformance.h"
#include "server/index/testing/conformance_calls.h"
#include "server/index/testing/model.h"

namespace kerf {

using namespace conformance;

namespace {

// A random life of an index, compared with the model at each step.
class Life {
 public:
  Life(const IndexBackend& backend, std::unique_ptr<Index> index, std::uint64_t seed)
      : backend_(backend), random_(seed), index_(std::move(index)) {}

  void Step() {
    const RepositoryId& repository = repositories_[random_.Below(repositories_.size())];
    const std::uint64_t choice = random_.Below(15);
    if (choice == 14) {
      Manage(repository);
    } else if (choice == 13) {
      ResetEpoch(repository);
    } else if (choice == 12) {
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
    std::vector<IndexEntry> entries = RandomEntries(repository);
    for (IndexEntry& entry : entries) {
      // Of any lookup there was: of one before whatever has happened since, too.
      const auto& absent = absent_[{repository.name, repository.digest_algorithm}];
      const auto seen = absent.find(entry.digest);
      if (seen == absent.end() || random_.OneIn(4)) continue;
      entry.absent_at = random_.OneIn(4) ? seen->second.front() : seen->second.back();
    }
    const std::uint64_t epoch = RandomEpoch();
    const bool replace = random_.OneIn(3);
    const absl::Status status = WaitFor(index_->Commit(repository, epoch, entries, replace));
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
    const auto actual = WaitFor(index_->Forget(repository, entries));
    ASSERT_TRUE(actual.ok()) << actual.status();
    ExpectForgotten(backend_, *actual, expected);
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
      const auto actual = WaitFor(index_->ForgetOlder(repository, epoch, after, limit));
      ASSERT_TRUE(actual.ok()) << actual.status();
      ExpectForgotten(backend_, actual->forgotten,
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

  void ResetEpoch(const RepositoryId& repository) {
    const std::uint64_t epoch = RandomEpoch();
    model_.ResetEpoch(repository, epoch);
    DoInSteps([&](const std::optional<Digest>& after, std::size_t limit) {
      return WaitFor(index_->ResetEpoch(repository, epoch, after, limit));
    });
    // Nothing that was there before is believed by who comes behind it.
    std::vector<Digest> digests(60);
    for (std::size_t index = 0; index < digests.size(); ++index) {
      digests[index] = DigestOf(repository, index);
    }
    std::vector<LookupResult> results(digests.size());
    ASSERT_TRUE(WaitFor(index_->Lookup(repository, epoch + 1, digests, results)).ok());
    for (const LookupResult& result : results) EXPECT_NE(result.verdict, Verdict::kDuplicate);
  }

  void Manage(const RepositoryId& repository) {
    if (random_.OneIn(2)) {
      const auto is_new = WaitFor(index_->Create(repository));
      ASSERT_TRUE(is_new.ok()) << is_new.status();
      const bool expected = model_.Create(repository);
      if (!backend_.MayHaveRepeated()) {
        EXPECT_EQ(*is_new, expected);
      }
    } else {
      model_.Drop(repository);
      DoInSteps([&](const std::optional<Digest>& after, std::size_t limit) {
        return WaitFor(index_->Drop(repository, after, limit));
      });
      const auto stats = WaitFor(index_->Stats(repository));
      ASSERT_TRUE(stats.ok()) << stats.status();
      EXPECT_EQ(stats->entry_count, 0u);
      EXPECT_EQ(stats->epoch, 0u);
    }
    EXPECT_EQ(WaitFor(index_->IsCreated(repository)).value(), model_.IsCreated(repository));
  }

  template <typename Step>
  void DoInSteps(const Step& step) {
    const std::size_t limit = random_.Between(1, 40);
    std::optional<Digest> after;
    do {
      const absl::StatusOr<StepResult> result = step(after, limit);
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_TRUE(!result->last.has_value() || !after.has_value() || !(*result->last < *after));
      after = result->last;
    } while (after.has_value());
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
    const auto actual = WaitFor(index_->AdvanceEpoch(repository, epoch, min_before));
    ASSERT_EQ(actual.ok(), expected.has_value());
    if (!expected.has_value()) return;
    // An index that has gone back is left as it is.
    const std::uint64_t told = *expected < min_before ? *expected : epoch;
    ExpectEpochBefore(backend_, actual, *expected, told);
  }

  void Scan(const RepositoryId& repository) {
    const std::vector<IndexEntry> expected = model_.All(repository);
    ASSERT_EQ(ScanAll(*index_, repository, random_.Between(1, 70)), expected);
    const auto stats = WaitFor(index_->Stats(repository));
    ASSERT_TRUE(stats.ok()) << stats.status();
    ASSERT_EQ(stats->entry_count, expected.size());
    ASSERT_EQ(stats->epoch, model_.Epoch(repository));
  }

  void Lookup(const RepositoryId& repository) {
    std::vector<Digest> digests(RandomCount());
    for (Digest& digest : digests) digest = DigestOf(repository, random_.Below(70));
    std::vector<LookupResult> results(digests.size(), {Verdict::kUnverified, 99, "left behind"});
    const std::uint64_t epoch = RandomEpoch();
    ASSERT_TRUE(WaitFor(index_->Lookup(repository, epoch, digests, results)).ok());
    for (std::size_t index = 0; index < digests.size(); ++index) {
      ExpectSame(results[index], model_.Lookup(repository, epoch, digests[index]));
      if (results[index].absent_at == 0) continue;
      EXPECT_EQ(results[index].verdict, Verdict::kNew);
      absent_[{repository.name, repository.digest_algorithm}][digests[index]].push_back(
          results[index].absent_at);
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
  // What lookups have said of digests that had no entry, before the index was opened again, too.
  std::map<std::pair<std::string, DigestAlgorithm>, std::map<Digest, std::vector<std::uint64_t>>>
      absent_;
  std::unique_ptr<Index> index_;
};

}  // namespace

TEST_P(IndexConformance, LivesLikeTheModel) {
  Life life(GetParam(), std::move(index_), TestSeed());
  const int step_count = GetParam().Rounds(1000);
  for (int step = 0; step < step_count && !HasFailure(); ++step) life.Step();
  life.CheckAll();
}

}  // namespace kerf
