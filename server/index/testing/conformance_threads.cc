// The index when several threads call it at once.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/index/testing/conformance.h"
#include "server/index/testing/conformance_calls.h"

namespace kerf {

using namespace conformance;

TEST_P(IndexConformance, ConcurrentCommitsAgreeOnOneLocator) {
  constexpr std::size_t kThreads = 4;
  constexpr std::uint64_t kDigests = 400;
  std::vector<std::vector<std::string>> seen(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::barrier<> together(kThreads);
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread, &seen, &together, &index = IndexForThread()] {
      for (std::uint64_t first = 0; first < kDigests; first += 10) {
        std::vector<IndexEntry> entries;
        for (std::uint64_t number = first; number < first + 10; ++number) {
          entries.push_back(EntryOf(number, "of thread " + std::to_string(thread)));
        }
        // Neighbours come in another order in every thread.
        std::rotate(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(thread * 2),
                    entries.end());
        together.arrive_and_wait();
        EXPECT_TRUE(WaitFor(index.Commit(kRepository, 1, entries, false)).ok());
        for (std::uint64_t number = first; number < first + 10; ++number) {
          seen[thread].push_back(LookupOne(index, 1, DigestOf(kRepository, number)).locator);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t thread = 1; thread < kThreads; ++thread) EXPECT_EQ(seen[thread], seen[0]);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, kDigests);
}

// As streams do: each says of what it commits what its lookup has seen, and others may have
// committed the same since, or be at it.
TEST_P(IndexConformance, ConcurrentCommitsOfWhatWasNewAgreeOnOneLocator) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kAtATime = 16;
  const std::uint64_t digest_count = kAtATime * std::max<std::uint64_t>(4, GetParam().Rounds(100));
  std::vector<std::vector<std::string>> seen(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::barrier<> together(kThreads);
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread, digest_count, &seen, &together, &index = IndexForThread()] {
      Random random(TestSeed() + thread);
      for (std::uint64_t first = 0; first < digest_count; first += kAtATime) {
        std::vector<IndexEntry> entries;
        std::vector<Digest> digests;
        for (std::uint64_t number = first; number < first + kAtATime; ++number) {
          entries.push_back(EntryOf(number, "of thread " + std::to_string(thread)));
          digests.push_back(entries.back().digest);
        }
        std::vector<LookupResult> results(kAtATime);
        together.arrive_and_wait();
        // One looks while another one writes, or all do.
        if (random.OneIn(2)) std::this_thread::yield();
        EXPECT_TRUE(WaitFor(index.Lookup(kRepository, 1, digests, results)).ok());
        if (random.OneIn(2)) std::this_thread::yield();
        for (std::size_t index_of = 0; index_of < kAtATime; ++index_of) {
          entries[index_of].absent_at = results[index_of].absent_at;
        }
        EXPECT_TRUE(WaitFor(index.Commit(kRepository, 1, entries, false)).ok());
        for (const Digest& digest : digests) {
          seen[thread].push_back(LookupOne(index, 1, digest).locator);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t thread = 1; thread < kThreads; ++thread) EXPECT_EQ(seen[thread], seen[0]);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, digest_count);
}

// Collections run beside uploads: a digest that was forgotten before the epoch was raised is never
// called a duplicate in a session of that epoch.
TEST_P(IndexConformance, ForgottenBeforeTheEpochIsNeverDuplicateInIt) {
  const std::uint64_t epoch_count = GetParam().Rounds(std::uint64_t{100});
  std::atomic<std::uint64_t> current{1};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  readers.reserve(3);
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&current, &done, &index = IndexForThread()] {
      while (!done.load()) {
        // Digest E is committed by a session of E and forgotten before E + 1 is told.
        const std::uint64_t epoch = current.load();
        const LookupResult result = LookupOne(index, epoch + 1, DigestOf(kRepository, epoch));
        EXPECT_NE(result.verdict, Verdict::kDuplicate) << epoch;
      }
    });
  }
  for (std::uint64_t epoch = 1; epoch <= epoch_count; ++epoch) {
    const IndexEntry entry = EntryOf(epoch, "a");
    EXPECT_TRUE(CommitOne(*index_, epoch, entry).ok());
    current.store(epoch);
    EXPECT_EQ(LookupOne(*index_, epoch, entry.digest).verdict, Verdict::kDuplicate);
    ForgetOne(kRepository, entry, 1);
    EXPECT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, epoch + 1, 0)).ok());
  }
  done.store(true);
  for (std::thread& reader : readers) reader.join();
}

// What is in the index when AdvanceEpoch returns is all that earlier sessions ever commit.
TEST_P(IndexConformance, NoCommitOfAnEarlierSessionPassesTheFence) {
  constexpr std::size_t kThreads = 3;
  const std::uint64_t round_count = std::max<std::uint64_t>(4, GetParam().Rounds(20));
  std::atomic<std::uint64_t> next_number{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  writers.reserve(kThreads);
  std::atomic<std::uint64_t> accepted_count{0};
  std::mutex mutex;
  std::vector<Digest> accepted;
  std::atomic<std::uint64_t> session_epoch{1};
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    writers.emplace_back([&, &index = IndexForThread()] {
      while (!done.load()) {
        const std::uint64_t epoch = session_epoch.load();
        std::vector<IndexEntry> entries(5);
        for (IndexEntry& entry : entries) entry = EntryOf(next_number.fetch_add(1), "a");
        const absl::Status status = WaitFor(index.Commit(kRepository, epoch, entries, false));
        if (!status.ok()) {
          EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
          continue;
        }
        accepted_count += entries.size();
        const std::lock_guard lock(mutex);
        for (const IndexEntry& entry : entries) accepted.push_back(entry.digest);
      }
    });
  }
  for (std::uint64_t epoch = 2; epoch < 2 + round_count; ++epoch) {
    const std::uint64_t awaited = accepted_count.load() + kThreads * 5;
    while (accepted_count.load() < awaited) std::this_thread::yield();
    EXPECT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, epoch, 0)).ok());
    const std::uint64_t at_fence = WaitFor(index_->Stats(kRepository))->entry_count;
    // All writers try, and are refused, before they are told of the new epoch.
    const std::uint64_t tried = next_number.load() + 2 * kThreads * 5;
    while (next_number.load() < tried) std::this_thread::yield();
    EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, at_fence);
    session_epoch.store(epoch);
  }
  done.store(true);
  for (std::thread& writer : writers) writer.join();
  std::vector<LookupResult> results(accepted.size());
  ASSERT_TRUE(WaitFor(index_->Lookup(kRepository, 1, accepted, results)).ok());
  for (const LookupResult& result : results) ASSERT_EQ(result.verdict, Verdict::kDuplicate);
  const std::uint64_t entry_count = WaitFor(index_->Stats(kRepository))->entry_count;
  if (GetParam().commits_in_parts) {
    EXPECT_GE(entry_count, accepted.size());
  } else {
    EXPECT_EQ(entry_count, accepted.size());
  }
}

// Removals beside a raising of the epoch are neither lost nor in its way.
TEST_P(IndexConformance, ConcurrentCommitForgetAndAdvanceKeepTheCount) {
  constexpr std::size_t kThreads = 4;
  constexpr std::uint64_t kEpochs = 10;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread, &index = IndexForThread()] {
      Random random(TestSeed() + thread);
      for (int round = 0; round < 60; ++round) {
        std::vector<IndexEntry> entries(8);
        std::vector<Digest> digests;
        for (IndexEntry& entry : entries) {
          entry = EntryOf(random.Below(50), "a");
          digests.push_back(entry.digest);
        }
        std::vector<LookupResult> results(entries.size());
        EXPECT_TRUE(WaitFor(index.Lookup(kRepository, 1, digests, results)).ok());
        for (std::size_t index_of = 0; index_of < entries.size(); ++index_of) {
          entries[index_of].absent_at = results[index_of].absent_at;
        }
        if (random.OneIn(3)) {
          EXPECT_TRUE(WaitFor(index.Forget(kRepository, entries)).ok());
        } else {
          EXPECT_TRUE(WaitFor(index.Commit(kRepository, kEpochs, entries, random.OneIn(2))).ok());
        }
      }
    });
  }
  for (std::uint64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    EXPECT_TRUE(WaitFor(index_->AdvanceEpoch(kRepository, epoch, epoch - 1)).ok());
    EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, epoch);
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<IndexEntry> left = ScanAll(*index_, kRepository, 1000);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, left.size());
  ExpectForgotten(GetParam(), *WaitFor(index_->Forget(kRepository, left)), left.size());
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 0u);
}

}  // namespace kerf
