// The conformance suite while masters are killed, paused and failed over and slots are moved. Calls
// fail early, so that many end half-way and are repeated by their caller, and what was sent to a
// node that stands still is carried out long after it was given up.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "server/index/forwarding_index.h"
#include "server/index/testing/conformance.h"
#include "server/index/testing/retrying_index.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/open_redis.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/testing/trouble.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

constexpr milliseconds kNodeTimeout{600};
constexpr std::chrono::seconds kPatience{60};
// Few, so that buckets are split in the middle of trouble.
constexpr int kBaseBits = 3;

// KERF_CHAOS_PERCENT says how many rounds the tests have, of those that they have in quiet.
int EffortPercent() {
  const char* text = std::getenv("KERF_CHAOS_PERCENT");
  return text == nullptr ? 20 : static_cast<int>(std::strtol(text, nullptr, 10));
}

// `repository` under a name of its own for each test: so none of them has to wait for quiet, and
// what is late from another one is trouble, too.
RepositoryId NameInTest(const RepositoryId& repository, int test) {
  if (!ValidateRepositoryName(repository.name).ok()) return repository;
  const std::string tag = RedisTagOf({repository.name, DigestAlgorithm::kBlake3});
  return {Cat("t", test, ".", tag), repository.digest_algorithm};
}

class RenamingIndex final : public ForwardingIndex {
 public:
  RenamingIndex(std::unique_ptr<Index> index, int test)
      : ForwardingIndex(std::move(index)), test_(test) {}

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::Lookup(own, session_epoch, digests, results);
  }
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::Commit(own, session_epoch, entries, replace);
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::Forget(own, entries);
  }
  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::ForgetOlder(own, epoch, after, limit);
  }
  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                   std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::AdvanceEpoch(own, epoch, min_before);
  }
  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::Scan(own, after, limit);
  }
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::Stats(own);
  }
  Task<absl::StatusOr<bool>> Create(const RepositoryId& repository) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::Create(own);
  }
  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& repository) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::IsCreated(own);
  }
  Task<absl::StatusOr<bool>> IsThere(const RepositoryId& repository) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::IsThere(own);
  }
  // Those that this test has named to it.
  Task<absl::StatusOr<std::vector<ListedRepository>>> List(const std::optional<RepositoryId>& after,
                                                           std::size_t limit) override {
    // Of a name that is none nobody has to make another one.
    if (after.has_value() && (!ValidateRepositoryName(after->name).ok() ||
                              after->digest_algorithm > DigestAlgorithm::kXxh3_128)) {
      co_return co_await ForwardingIndex::List(after, limit);
    }
    std::map<RepositoryId, ListedRepository, RepositoryOrder> listed;
    std::optional<RepositoryId> own_after;
    while (true) {
      auto page = co_await ForwardingIndex::List(own_after, kListPage);
      if (!page.ok()) co_return page.status();
      if (page->empty()) break;
      own_after = page->back().id;
      const std::lock_guard lock(mutex_);
      for (const ListedRepository& own : *page) {
        const auto found = named_.find(own.id);
        const bool is_ours = own.id.name.starts_with(Cat("t", test_, "."));
        if (is_ours && found != named_.end())
          listed[found->second] = {found->second, own.is_created};
      }
    }
    std::vector<ListedRepository> answer;
    auto at = after.has_value() ? listed.upper_bound(*after) : listed.begin();
    for (; at != listed.end() && answer.size() < limit; ++at) answer.push_back(at->second);
    co_return answer;
  }
  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                        const std::optional<Digest>& after,
                                        std::size_t limit) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::Drop(own, after, limit);
  }
  Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                              const std::optional<Digest>& after,
                                              std::size_t limit) override {
    const RepositoryId own = In(repository);
    co_return co_await ForwardingIndex::ResetEpoch(own, epoch, after, limit);
  }

 private:
  static constexpr std::size_t kListPage = 100;

  RepositoryId In(const RepositoryId& repository) {
    RepositoryId own = NameInTest(repository, test_);
    const std::lock_guard lock(mutex_);
    named_.try_emplace(own, repository);
    return own;
  }

  // Of all: one that is opened anew knows what the one before it has named.
  inline static std::mutex mutex_;
  inline static std::map<RepositoryId, RepositoryId, RepositoryOrder> named_;

  const int test_;
};

// Servers in trouble, for all tests of one kind.
class Troubled {
 public:
  explicit Troubled(TestRedis::Kind kind)
      : kind_(kind),
        redis_(kind, "", static_cast<int>(kNodeTimeout.count()), TestRedis::Log::kAlways),
        trouble_(
            &redis_, kind, kNodeTimeout, [this](Random& random) { return AnyKey(random); },
            TestSeed()) {
    trouble_.Begin();
  }
  ~Troubled() {
    trouble_.End();
    std::printf("%d troubles, %llu calls repeated\n", trouble_.count(),
                static_cast<unsigned long long>(repeat_count_.load()));
    EXPECT_GT(trouble_.count(), 0);
  }

  // For the next test.
  std::unique_ptr<Index> Create() {
    ++test_count_;
    return Open();
  }
  // For the same test.
  std::unique_ptr<Index> Open() {
    RedisIndexOptions options{redis_.options_of_kerfd(),
                              kind_ == TestRedis::Kind::kCluster ? 1 : 0};
    // Less than a pause, so that it is carried out twice; and calls fail in the middle.
    options.base_bits = kBaseBits;
    options.layout = LayoutOfTest();
    options.redis.attempt_timeout = milliseconds(400);
    options.redis.replica_timeout = milliseconds(200);
    options.redis.command_timeout = milliseconds(900);
    const auto end = steady_clock::now() + kPatience;
    std::vector<std::string> warnings;
    auto leaf = RedisIndex::Open(options, &warnings);
    while (absl::IsUnavailable(leaf.status()) && steady_clock::now() < end) {
      leaf = RedisIndex::Open(options, &warnings);
    }
    EXPECT_TRUE(leaf.ok()) << leaf.status();
    if (!leaf.ok()) return nullptr;
    // Where buckets follow heads no lookup waits for a slot that moves.
    const auto moves = [this] { return trouble_.moves(); };
    return std::make_unique<RetryingIndex>(
        std::make_unique<RenamingIndex>(*std::move(leaf), test_count_), kPatience, &repeat_count_,
        HasHeads() ? RetryingIndex::Moves(moves) : nullptr);
  }

 private:
  // Of a bucket of a repository of the test that runs.
  std::string AnyKey(Random& random) const {
    const std::vector<RepositoryId> repositories = {{"photos", DigestAlgorithm::kBlake3},
                                                    {"a", DigestAlgorithm::kBlake3},
                                                    {"a", DigestAlgorithm::kXxh3_128},
                                                    {"aa", DigestAlgorithm::kSha256}};
    const RepositoryId& repository = repositories[random.Below(repositories.size())];
    const auto base = static_cast<std::uint32_t>(random.Below(1u << kBaseBits));
    return BucketKey(RedisTagOf(NameInTest(repository, test_count_)), base, "");
  }

  const TestRedis::Kind kind_;
  std::atomic<int> test_count_{0};
  std::atomic<std::uint64_t> repeat_count_{0};
  TestRedis redis_;
  Trouble trouble_;
};

// Begins with the first test that needs it, ends behind the last one.
template <TestRedis::Kind kKind>
class TroubledEnvironment final : public ::testing::Environment {
 public:
  static Troubled& Get() {
    if (troubled_ == nullptr) troubled_ = std::make_unique<Troubled>(kKind);
    return *troubled_;
  }
  void TearDown() override { troubled_.reset(); }

 private:
  static std::unique_ptr<Troubled> troubled_;
};
template <TestRedis::Kind kKind>
std::unique_ptr<Troubled> TroubledEnvironment<kKind>::troubled_;

template <TestRedis::Kind kKind>
IndexBackend BackendIn() {
  using Environment = TroubledEnvironment<kKind>;
  ::testing::AddGlobalTestEnvironment(new Environment);
  // gtest owns it. NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
  return {[] { return Environment::Get().Create(); },
          [](std::unique_ptr<Index> index) {
            index.reset();
            return Environment::Get().Open();
          },
          [] { return Environment::Get().Open(); },
          /*may_have_repeated=*/[] { return true; },
          /*commits_in_parts=*/true,
          EffortPercent()};
}

INSTANTIATE_TEST_SUITE_P(Redis, IndexConformance,
                         ::testing::Values(BackendIn<TestRedis::Kind::kSingle>()));
INSTANTIATE_TEST_SUITE_P(Cluster, IndexConformance,
                         ::testing::Values(BackendIn<TestRedis::Kind::kCluster>()));

}  // namespace
}  // namespace kerf
