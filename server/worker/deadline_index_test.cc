#include "server/worker/deadline_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <deque>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/task.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/errors/errors.h"
#include "server/index/forwarding_index.h"
#include "server/index/memory_index.h"
#include "server/index/testing/conformance.h"
#include "server/index/testing/late_index.h"
#include "server/net/clock.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTimeout{250};
constexpr std::string_view kLateMessage = "the index has not answered for 250 ms";
const RepositoryId kHome{"home", DigestAlgorithm::kXxh3_128};

// An index whose calls all wait until they are told to be carried out, in the thread that tells
// them. Thread-safe.
class HeldIndex final : public ForwardingIndex {
 public:
  HeldIndex() : ForwardingIndex(CreateMemoryIndex()) {}
  ~HeldIndex() override { CarryOutAll(); }

  std::size_t held_count() {
    const std::lock_guard lock(mutex_);
    return calls_.size();
  }
  // The one asked last: others may be late already. False: there is none.
  bool CarryOutOne() {
    std::coroutine_handle<> call;
    {
      const std::lock_guard lock(mutex_);
      if (calls_.empty()) return false;
      call = calls_.back();
      calls_.pop_back();
    }
    call.resume();
    return true;
  }
  void CarryOutAll() {
    while (CarryOutOne()) {
    }
  }

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    Parking parking(this);
    co_await parking;
    co_return co_await ForwardingIndex::Lookup(repository, session_epoch, digests, results);
  }
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    Parking parking(this);
    co_await parking;
    co_return co_await ForwardingIndex::Commit(repository, session_epoch, entries, replace);
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    Parking parking(this);
    co_await parking;
    co_return co_await ForwardingIndex::Forget(repository, entries);
  }
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override {
    Parking parking(this);
    co_await parking;
    co_return co_await ForwardingIndex::ForgetOlder(repository, epoch, after, limit);
  }
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    Parking parking(this);
    co_await parking;
    co_return co_await ForwardingIndex::AdvanceEpoch(repository, epoch, min_before);
  }
  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override {
    Parking parking(this);
    co_await parking;
    co_return co_await ForwardingIndex::Scan(repository, after, limit);
  }
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override {
    Parking parking(this);
    co_await parking;
    co_return co_await ForwardingIndex::Stats(repository);
  }

 private:
  class Parking {
   public:
    explicit Parking(HeldIndex* index) : index_(*index) {}
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> call) {
      const std::lock_guard lock(index_.mutex_);
      index_.calls_.push_back(call);
    }
    void await_resume() const {}

   private:
    HeldIndex& index_;
  };

  std::mutex mutex_;
  std::deque<std::coroutine_handle<>> calls_;
};

// How often the caller of a call went on, and with what.
struct Outcome {
  std::atomic<int> count{0};
  absl::Status status;
};

Digest DigestOf(std::uint8_t first) {
  Digest digest;
  digest.bytes[0] = first;
  return digest;
}

// One call of each kind. What it is asked with, and what it is answered into, goes with the caller,
// as soon as that goes on.
Detached AskLookup(Index& index, Outcome& outcome) {
  const RepositoryId repository = kHome;
  const std::vector<Digest> digests = {DigestOf(1), DigestOf(2)};
  std::vector<LookupResult> results(digests.size());
  outcome.status = co_await index.Lookup(repository, 1, digests, results);
  // All or nothing, and nothing where it is late.
  const bool is_known = outcome.status.ok() && results[0].verdict == Verdict::kDuplicate;
  EXPECT_EQ(results[0].locator, is_known ? "here" : "");
  EXPECT_EQ(results[0].length_bytes, is_known ? 7u : 0u);
  EXPECT_EQ(results[1].verdict, Verdict::kNew);
  ++outcome.count;
}
Detached AskCommit(Index& index, Outcome& outcome) {
  const RepositoryId repository = kHome;
  const std::vector<IndexEntry> entries = {{DigestOf(1), 7, "here"}};
  outcome.status = co_await index.Commit(repository, 1, entries, false);
  ++outcome.count;
}
Detached AskForget(Index& index, Outcome& outcome) {
  const RepositoryId repository = kHome;
  const std::vector<IndexEntry> entries = {{DigestOf(3), 7, "a locator that is on the heap"}};
  outcome.status = (co_await index.Forget(repository, entries)).status();
  ++outcome.count;
}
Detached AskForgetOlder(Index& index, Outcome& outcome) {
  const RepositoryId repository = kHome;
  const std::optional<Digest> after = DigestOf(4);
  outcome.status = (co_await index.ForgetOlder(repository, 1, after, 10)).status();
  ++outcome.count;
}
Detached AskAdvanceEpoch(Index& index, Outcome& outcome) {
  const RepositoryId repository = kHome;
  outcome.status = (co_await index.AdvanceEpoch(repository, 1, 0)).status();
  ++outcome.count;
}
Detached AskScan(Index& index, Outcome& outcome) {
  const RepositoryId repository = kHome;
  const std::optional<Digest> after = DigestOf(0);
  outcome.status = (co_await index.Scan(repository, after, 10)).status();
  ++outcome.count;
}
Detached AskStats(Index& index, Outcome& outcome) {
  const RepositoryId repository = kHome;
  outcome.status = (co_await index.Stats(repository)).status();
  ++outcome.count;
}
using Ask = Detached (*)(Index&, Outcome&);
constexpr Ask kAsks[] = {&AskCommit,       &AskLookup, &AskForget, &AskForgetOlder,
                         &AskAdvanceEpoch, &AskScan,   &AskStats};

// Over a HeldIndex, with a clock of the test's.
class DeadlineIndexTest : public testing::Test {
 protected:
  void Pass(milliseconds time) { now_ms_ += time.count(); }
  TimePoint now() const { return TimePoint(milliseconds(now_ms_.load())); }
  std::size_t CheckTime() { return index_->CheckTime(now()); }

  static void ExpectLate(const Outcome& outcome) {
    EXPECT_EQ(outcome.count, 1);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(MessageOf(outcome.status), kLateMessage);
    EXPECT_EQ(ReasonNameOf(outcome.status), "INDEX_UNAVAILABLE");
    // Clients are told just that.
    EXPECT_EQ(FromIndexStatus(outcome.status), outcome.status);
  }

  std::atomic<std::int64_t> now_ms_{1'000'000};
  const Clock clock_ = [this] { return now(); };
  HeldIndex held_;
  std::unique_ptr<DeadlineIndex> index_ =
      std::make_unique<DeadlineIndex>(&held_, kTimeout, &clock_);
};

TEST_F(DeadlineIndexTest, ACallThatIsAnsweredInTimeHasItsAnswer) {
  for (const Ask ask : kAsks) {
    Outcome outcome;
    ask(*index_, outcome);
    EXPECT_EQ(outcome.count, 0);
    EXPECT_EQ(index_->pending_count(), 1u);
    Pass(kTimeout - milliseconds(1));
    EXPECT_EQ(CheckTime(), 0u);
    EXPECT_EQ(outcome.count, 0);
    ASSERT_TRUE(held_.CarryOutOne());
    EXPECT_EQ(outcome.count, 1);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    // Nothing of it is left, and nothing happens when its time has come.
    EXPECT_EQ(index_->pending_count(), 0u);
    Pass(kTimeout);
    EXPECT_EQ(CheckTime(), 0u);
    EXPECT_EQ(outcome.count, 1);
  }
}

TEST_F(DeadlineIndexTest, ACallThatIsLateEndsWithItsReasonAndIsCarriedOutAllTheSame) {
  for (const Ask ask : kAsks) {
    Outcome outcome;
    ask(*index_, outcome);
    Pass(kTimeout);
    EXPECT_EQ(CheckTime(), 1u);
    ExpectLate(outcome);
    EXPECT_EQ(index_->pending_count(), 0u);
    EXPECT_EQ(CheckTime(), 0u);
    // What the caller had given is gone.
    ASSERT_EQ(held_.held_count(), 1u);
    ASSERT_TRUE(held_.CarryOutOne());
    EXPECT_EQ(outcome.count, 1);
  }
  // As the late commit has written.
  Outcome outcome;
  AskLookup(*index_, outcome);
  held_.CarryOutAll();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  const Task<absl::StatusOr<IndexStats>> unasked = index_->Stats(kHome);
  EXPECT_EQ(held_.held_count(), 0u) << "a task begins when it is awaited";
}

TEST_F(DeadlineIndexTest, LookupsAreAnsweredIntoTheCallersResults) {
  const std::vector<IndexEntry> entries = {{DigestOf(5), 9, "there"}};
  const std::vector<Digest> digests = {DigestOf(6), DigestOf(5)};
  std::vector<LookupResult> results(digests.size());
  int answered_count = 0;
  [](DeadlineIndex& index, std::span<const IndexEntry> own_entries,
     std::span<const Digest> own_digests, std::span<LookupResult> own_results,
     int& count) -> Detached {
    EXPECT_TRUE((co_await index.Commit(kHome, 1, own_entries, false)).ok());
    EXPECT_TRUE((co_await index.Lookup(kHome, 1, own_digests, own_results)).ok());
    ++count;
  }(*index_, entries, digests, results, answered_count);
  held_.CarryOutAll();
  EXPECT_EQ(answered_count, 1);
  EXPECT_EQ(results[0].verdict, Verdict::kNew);
  EXPECT_EQ(results[1].verdict, Verdict::kDuplicate);
  EXPECT_EQ(results[1].length_bytes, 9u);
  EXPECT_EQ(results[1].locator, "there");
}

// An index that answers at once is asked in the caller's thread, and nothing is kept of that.
TEST_F(DeadlineIndexTest, AnAnswerAtOnceNeedsNoDeadline) {
  const std::unique_ptr<Index> memory = CreateMemoryIndex();
  DeadlineIndex index(memory.get(), kTimeout, &clock_);
  for (const Ask ask : kAsks) {
    Outcome outcome;
    ask(index, outcome);
    EXPECT_EQ(outcome.count, 1);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(index.pending_count(), 0u);
  }
}

// Notes what it is given.
class SeenIndex final : public ForwardingIndex {
 public:
  explicit SeenIndex(bool answers_at_once)
      : ForwardingIndex(CreateMemoryIndex()), answers_at_once_(answers_at_once) {}
  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    seen_ = {digests.data(), results.data()};
    return ForwardingIndex::Lookup(repository, session_epoch, digests, results);
  }
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    seen_ = {entries.data()};
    return ForwardingIndex::Commit(repository, session_epoch, entries, replace);
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    seen_ = {entries.data()};
    return ForwardingIndex::Forget(repository, entries);
  }
  bool answers_at_once() const override { return answers_at_once_; }

  // Where that of the last call lies.
  const std::vector<const void*>& seen() const { return seen_; }

 private:
  const bool answers_at_once_;
  std::vector<const void*> seen_;
};

TEST_F(DeadlineIndexTest, OnlyAnIndexThatAnswersAtOnceHasWhatIsTheCallers) {
  const IndexEntry entry{DigestOf(5), 9, "there"};
  const Digest digest = DigestOf(5);
  LookupResult result;
  for (const bool answers_at_once : {true, false}) {
    SeenIndex seen(answers_at_once);
    DeadlineIndex index(&seen, kTimeout, &clock_);
    EXPECT_EQ(index.answers_at_once(), answers_at_once);
    ASSERT_TRUE(WaitFor(index.Commit(kHome, 1, {&entry, 1}, false)).ok());
    EXPECT_EQ(seen.seen()[0] == &entry, answers_at_once);
    ASSERT_TRUE(WaitFor(index.Lookup(kHome, 1, {&digest, 1}, {&result, 1})).ok());
    EXPECT_EQ(seen.seen()[0] == &digest, answers_at_once);
    EXPECT_EQ(seen.seen()[1] == &result, answers_at_once);
    EXPECT_EQ(result.locator, "there");
    ASSERT_TRUE(WaitFor(index.Forget(kHome, {&entry, 1})).ok());
    EXPECT_EQ(seen.seen()[0] == &entry, answers_at_once);
  }
  // A wrapper that says nothing may wait.
  EXPECT_FALSE(held_.answers_at_once());
}

// Whoever goes on may ask again at once, and has all its time for that.
TEST_F(DeadlineIndexTest, WhoeverIsLateMayAskAgain) {
  int late_count = 0;
  [](DeadlineIndex& index, int& count) -> Detached {
    for (int round = 0; round < 3; ++round) {
      EXPECT_FALSE((co_await index.Stats(kHome)).ok());
      ++count;
    }
  }(*index_, late_count);
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(index_->pending_count(), 1u);
    Pass(kTimeout);
    EXPECT_EQ(CheckTime(), 1u);
    EXPECT_EQ(late_count, round);
  }
}

std::size_t ThreadCount() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// An index that never answers ends nobody's call but at its deadline, and costs no thread.
TEST_F(DeadlineIndexTest, ThousandsOfCallsEndEachAtItsTime) {
  constexpr std::size_t kCalls = 5'000;
  const std::size_t thread_count = ThreadCount();
  std::deque<Outcome> outcomes(kCalls);
  for (std::size_t number = 0; number < kCalls; ++number) {
    if (number % 100 == 0) Pass(milliseconds(1));
    kAsks[number % std::size(kAsks)](*index_, outcomes[number]);
  }
  EXPECT_EQ(index_->pending_count(), kCalls);
  EXPECT_EQ(ThreadCount(), thread_count);
  // The first were asked 49 ms ago.
  Pass(kTimeout - milliseconds(50));
  for (std::size_t ended = 0; ended < kCalls; ended += 100) {
    EXPECT_EQ(CheckTime(), 0u);
    Pass(milliseconds(1));
    EXPECT_EQ(CheckTime(), 100u);
    ExpectLate(outcomes[ended]);
    ExpectLate(outcomes[ended + 99]);
    if (ended + 100 < kCalls) {
      EXPECT_EQ(outcomes[ended + 100].count, 0);
    }
  }
  EXPECT_EQ(index_->pending_count(), 0u);
  EXPECT_EQ(held_.held_count(), kCalls);
  held_.CarryOutAll();
  for (const Outcome& outcome : outcomes) ExpectLate(outcome);
}

TEST_F(DeadlineIndexTest, ClosedItEndsEveryCallAndTheIndexMayAnswerWhenItIsGone) {
  std::deque<Outcome> outcomes(2 * std::size(kAsks));
  std::size_t number = 0;
  for (const Ask ask : kAsks) ask(*index_, outcomes[number++]);
  index_->Close();
  for (std::size_t ended = 0; ended < number; ++ended) {
    EXPECT_EQ(outcomes[ended].count, 1);
    EXPECT_TRUE(absl::IsCancelled(outcomes[ended].status)) << outcomes[ended].status;
  }
  // Those that come later are not asked for.
  for (const Ask ask : kAsks) {
    ask(*index_, outcomes[number]);
    EXPECT_EQ(outcomes[number].count, 1);
    EXPECT_TRUE(absl::IsCancelled(outcomes[number++].status));
  }
  EXPECT_EQ(held_.held_count(), std::size(kAsks));
  index_ = nullptr;
  held_.CarryOutAll();
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.count, 1);
}

TEST_F(DeadlineIndexTest, DestroyedItEndsEveryCall) {
  std::deque<Outcome> outcomes(std::size(kAsks));
  for (std::size_t number = 0; number < outcomes.size(); ++number) {
    kAsks[number](*index_, outcomes[number]);
  }
  index_ = nullptr;
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.count, 1);
    EXPECT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
  }
  held_.CarryOutAll();
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.count, 1);
}

// The answer, the deadline and the caller's going to sleep meet at any moment: the caller goes on
// once, with one of the two.
TEST_F(DeadlineIndexTest, AnswersAndDeadlinesRace) {
  constexpr std::size_t kCalls = 20'000;
  Random random(TestSeed());
  std::deque<Outcome> outcomes(kCalls);
  std::atomic<bool> is_over{false};
  std::thread answers([&] {
    while (!is_over) held_.CarryOutOne();
  });
  std::thread deadlines([&] {
    while (!is_over) {
      Pass(kTimeout / 4);
      CheckTime();
    }
  });
  for (std::size_t number = 0; number < kCalls; ++number) {
    kAsks[random.Below(std::size(kAsks))](*index_, outcomes[number]);
  }
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto has_ended = [](const Outcome& outcome) { return outcome.count > 0; };
  while (!std::all_of(outcomes.begin(), outcomes.end(), has_ended) &&
         std::chrono::steady_clock::now() < patience) {
    std::this_thread::yield();
  }
  is_over = true;
  answers.join();
  deadlines.join();
  held_.CarryOutAll();
  std::size_t answered_count = 0;
  for (const Outcome& outcome : outcomes) {
    ASSERT_EQ(outcome.count, 1);
    if (outcome.status.ok()) {
      ++answered_count;
    } else {
      EXPECT_EQ(MessageOf(outcome.status), kLateMessage);
    }
  }
  EXPECT_EQ(index_->pending_count(), 0u);
  EXPECT_GT(answered_count, 0u);
  EXPECT_LT(answered_count, kCalls);
}

// With a deadline that never comes, whether the index answers at once or late.
class OwningDeadlineIndex final : public ForwardingIndex {
 public:
  struct Parts {
    explicit Parts(bool is_late) {
      if (is_late) late.emplace(leaf.get(), Random(TestSeed()).Next());
    }
    const Clock clock = [] { return std::chrono::steady_clock::now(); };
    std::unique_ptr<Index> leaf = CreateMemoryIndex();
    std::optional<LateIndex> late;
  };
  explicit OwningDeadlineIndex(bool is_late)
      : OwningDeadlineIndex(std::make_unique<Parts>(is_late)) {}

 private:
  explicit OwningDeadlineIndex(std::unique_ptr<Parts> parts)
      : ForwardingIndex(std::make_unique<DeadlineIndex>(
            parts->late.has_value() ? &*parts->late : parts->leaf.get(), std::chrono::hours(24),
            &parts->clock)),
        parts_(std::move(parts)) {}

  const std::unique_ptr<Parts> parts_;
};

INSTANTIATE_TEST_SUITE_P(
    Deadline, IndexConformance,
    ::testing::Values(IndexBackend{[] { return std::make_unique<OwningDeadlineIndex>(false); }},
                      IndexBackend{[] { return std::make_unique<OwningDeadlineIndex>(true); }}));

}  // namespace
}  // namespace kerf
