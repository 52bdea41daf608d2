// The conformance suite against real Redis servers.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/index/testing/conformance.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/open_redis.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {
namespace {

// The suite looks at all of an index again and again; with few entries that takes as long as there
// are base buckets. kDefaultBaseBits: redis_index_test, redis_chaos_test, e2e/redis_test.
constexpr int kFewBaseBits = 4;

// What the suite opens on one server, for all tests; each begins with nothing in it.
class Opened {
 public:
  Opened(TestRedis::Kind kind, int replica_count) : redis_(kind), replica_count_(replica_count) {}

  std::unique_ptr<Index> Create() {
    redis_.Flush();
    retry_count_ = 0;
    return Open();
  }
  std::unique_ptr<Index> Reopen(std::unique_ptr<Index> index) {
    retry_count_ += opened_->counters().retries;
    index.reset();
    return Open();
  }
  // By the client: on a machine that is busy it waits for no answer for longer than it likes.
  bool MayHaveRepeated() const { return retry_count_ + opened_->counters().retries > 0; }

 private:
  std::unique_ptr<Index> Open() {
    auto index = OpenRedisOn(redis_, replica_count_, kFewBaseBits);
    opened_ = index.get();
    return index;
  }

  TestRedis redis_;
  const int replica_count_;
  RedisIndex* opened_ = nullptr;
  // Of those before it.
  std::uint64_t retry_count_ = 0;
};

template <TestRedis::Kind kKind>
IndexBackend BackendOn() {
  static Opened* opened = nullptr;
  const auto get = [] {
    if (opened == nullptr) opened = new Opened(kKind, kKind == TestRedis::Kind::kCluster ? 1 : 0);
    return opened;
  };
  return {[get] { return get()->Create(); },
          [get](std::unique_ptr<Index> index) { return get()->Reopen(std::move(index)); },
          /*another=*/nullptr,
          /*may_have_repeated=*/[get] { return get()->MayHaveRepeated(); },
          /*commits_in_parts=*/true};
}

INSTANTIATE_TEST_SUITE_P(Redis, IndexConformance,
                         ::testing::Values(BackendOn<TestRedis::Kind::kSingle>()));
INSTANTIATE_TEST_SUITE_P(Cluster, IndexConformance,
                         ::testing::Values(BackendOn<TestRedis::Kind::kCluster>()));

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

// Sends each command twice, as the client does where an answer is lost, and gives the second
// answer.
class RepeatingClient final : public RedisClient {
 public:
  explicit RepeatingClient(std::unique_ptr<RedisClient> client) : client_(std::move(client)) {}

  void Send(RedisCommand command, Done done) override {
    client_->Send(command, [this, command, done = std::move(done)](
                               const absl::StatusOr<RedisReply>& /*lost*/) mutable {
      client_->Send(std::move(command), std::move(done));
    });
  }
  void ReadMasters(MastersDone done, std::chrono::milliseconds timeout) override {
    client_->ReadMasters(std::move(done), timeout);
  }
  void Close() override { client_->Close(); }
  void ReadSlots(SlotsDone done) override { client_->ReadSlots(std::move(done)); }
  void ExpectIdentity(std::vector<std::string> known) override {
    client_->ExpectIdentity(std::move(known));
  }
  RedisCounters counters() const override { return client_->counters(); }
  std::optional<std::int64_t> certificate_expires_at_s() const override {
    return client_->certificate_expires_at_s();
  }

 private:
  const std::unique_ptr<RedisClient> client_;
};

// A collection believes an index only where both counts are 0: what an answer that was lost has
// removed may be missing from the first, and never from the second.
TEST(RepeatedCallTest, OfAForgetThatIsRepeatedEnoughIsSaidToHaveBeenRemoved) {
  const TestRedis redis(TestRedis::Kind::kSingle);
  RedisIndexOptions options{redis.options_of_kerfd()};
  options.base_bits = kFewBaseBits;
  options.layout = LayoutOfTest();
  options.wrap_client = [](std::unique_ptr<RedisClient> client) {
    return std::make_unique<RepeatingClient>(std::move(client));
  };
  std::vector<std::string> warnings;
  const auto index = *RedisIndex::Open(std::move(options), &warnings);
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 2, 0)).ok());
  Random random(TestSeed());
  std::vector<IndexEntry> entries(100);
  for (IndexEntry& entry : entries) {
    entry = {{}, 7, "at"};
    random.Fill(entry.digest.bytes);
  }
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 2, entries, false)).ok());
  const auto forgotten = WaitFor(index->Forget(kRepository, entries));
  ASSERT_TRUE(forgotten.ok()) << forgotten.status();
  EXPECT_LE(forgotten->forgotten_count, entries.size());
  EXPECT_GE(forgotten->removed_count, entries.size());
  EXPECT_EQ(forgotten->epoch, 2u);
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->entry_count, 0u);
  // Nor of one that is behind it.
  const auto again = WaitFor(index->Forget(kRepository, entries));
  EXPECT_EQ(again->forgotten_count, 0u);
  EXPECT_GE(again->removed_count, entries.size());
}

}  // namespace
}  // namespace kerf
