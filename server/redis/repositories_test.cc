// How many repositories a process remembers, on a Redis that is made up.
#include "server/redis/repositories.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/wait_for.h"
#include "server/redis/buckets.h"

namespace kerf {
namespace {

RedisReply Text(std::string text) {
  RedisReply reply;
  reply.kind = RedisReply::Kind::kText;
  reply.text = std::move(text);
  return reply;
}

// Has every repository that it is asked for: its name is the one that the test has said.
class MadeUpRedis final : public RedisClient {
 public:
  void Send(RedisCommand, Done done) override {
    ++read_count;
    RedisReply reply;
    reply.kind = RedisReply::Kind::kArray;
    reply.elements = {Text("2"), Text(name), Text("10"), {}, {}, {}, {}, {}};
    done(reply);
  }
  void ReadMasters(MastersDone done, std::chrono::milliseconds) override {
    done(absl::UnavailableError(""));
  }
  void Close() override {}
  void ExpectIdentity(std::vector<std::string>) override {}
  RedisCounters counters() const override { return {}; }
  std::optional<std::int64_t> certificate_expires_at_s() const override { return std::nullopt; }

  std::string name;
  int read_count = 0;
};

class RepositoriesTest : public ::testing::Test {
 protected:
  RedisRepositoryPtr Load(std::uint64_t number) {
    redis_.name = Cat("photos-", number);
    auto repository =
        WaitFor(repositories_.Load({redis_.name, DigestAlgorithm::kBlake3}, /*create=*/false));
    EXPECT_TRUE(repository.ok()) << repository.status();
    return *repository;
  }
  bool IsKept(std::uint64_t number) {
    const int before = redis_.read_count;
    Load(number);
    return redis_.read_count == before;
  }

  MadeUpRedis redis_;
  RedisRepositories repositories_{&redis_, 0, {kDefaultBaseBits, 0}};
};

TEST_F(RepositoriesTest, AHundredThousandNamesTakeNoMoreThanSome) {
  constexpr std::size_t kMaxBytes = RedisRepositories::kMaxKept * 1'024;
  for (std::uint64_t number = 0; number < 10; ++number) Load(number);
  const std::size_t before = mallinfo2().uordblks;
  for (std::uint64_t number = 0; number < 100'000; ++number) Load(number);
  EXPECT_EQ(repositories_.kept_count(), RedisRepositories::kMaxKept);
  const std::size_t bytes = mallinfo2().uordblks - before;
  std::printf("%zu bytes for each that is kept\n", bytes / RedisRepositories::kMaxKept);
  EXPECT_LE(bytes, kMaxBytes);
}

TEST_F(RepositoriesTest, TheOneThatIsUsedLeastGoes) {
  for (std::uint64_t number = 0; number < RedisRepositories::kMaxKept; ++number) Load(number);
  EXPECT_TRUE(IsKept(0));
  Load(RedisRepositories::kMaxKept);
  EXPECT_TRUE(IsKept(0));
  EXPECT_TRUE(IsKept(2));
  EXPECT_FALSE(IsKept(1));
}

TEST_F(RepositoriesTest, OneThatCallsAreUsingStays) {
  const RedisRepositoryPtr used = Load(0);
  std::vector<RedisRepositoryPtr> many;
  for (std::uint64_t number = 1; number < 2 * RedisRepositories::kMaxKept; ++number) {
    many.push_back(Load(number));
  }
  EXPECT_EQ(Load(0), used);
  // All are in use: there is room for one more all the same.
  EXPECT_EQ(repositories_.kept_count(), 2 * RedisRepositories::kMaxKept);
  many.clear();
  Load(1'000'000);
  EXPECT_EQ(repositories_.kept_count(), RedisRepositories::kMaxKept);
  EXPECT_EQ(Load(0), used);
}

}  // namespace
}  // namespace kerf
